package nfs_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
)

// recycling gives the node's plugin a recycler that uses it.
func (n *node) recycling(c nfs.Config) {
	n.Helper()
	r, err := recycler.NewLocal(recycler.LocalConfig{
		Host:   n.host,
		Plugin: func(*volume.Spec) (volume.VolumePlugin, error) { return n.plugin, nil },
	})
	require.NoError(n, err)
	c.Mounter, c.Recycler = n.mounts, r
	n.plugin = nfs.New(c)
	require.NoError(n, n.plugin.Init(context.Background(), n.host))
}

// filledDirectory returns a directory of the server with entries of several kinds.
func (n *node) filledDirectory(name string) string {
	n.Helper()
	path := n.exported(name)
	for i := range 20 {
		require.NoError(n, os.MkdirAll(fmt.Sprintf("%s/%d/deep", path, i), 0o755))
		require.NoError(n, os.WriteFile(fmt.Sprintf("%s/%d/deep/file", path, i), []byte("data"), 0o600))
	}
	return path
}

// TestNFSRecycle: an export is emptied, and looked at, by the kernel's client.
func TestNFSRecycle(t *testing.T) {
	for name, c := range map[string]nfs.Config{"each": {}, "one": {OneMountPerExport: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c)
			n.recycling(c)
			path, other := n.filledDirectory("a"), n.filledDirectory("b")
			spec := n.pv(path)
			for range 2 {
				require.NoError(t, n.plugin.Recycle(n.patientContext(), "a", spec))
				entries, err := os.ReadDir(path)
				require.NoError(t, err)
				require.Empty(t, entries)
			}
			require.FileExists(t, other+"/0/deep/file")
			require.Empty(t, n.mountsBelowRoot())
			require.ErrorIs(t, n.plugin.Recycle(n.patientContext(), "a", n.pv(path, "ro")), volume.ErrNotSupported)
		})
	}
}

// TestNFSRecycleRefused: a server that forbids it is not taken for one whose volume is
// empty.
func TestNFSRecycleRefused(t *testing.T) {
	for name, export := range map[string]nfsserver.Export{"read-only": {ReadOnly: true}, "root squash": {SquashRoot: true}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			export.Dir = dir
			n := &node{T: t, export: dir, server: nfsserver.Serve(t, export)}
			n.on(t.TempDir(), nfs.Config{})
			n.recycling(nfs.Config{})
			path := n.filledDirectory("a")
			err := n.plugin.Recycle(n.patientContext(), "a", n.pv(path))
			var left *scrub.UnremovableError
			require.ErrorAs(t, err, &left)
			require.FileExists(t, path+"/0/deep/file")
			require.Empty(t, n.mountsBelowRoot())
		})
	}
}

// TestRecycleNothing: without a recycler nothing is recycled.
func TestRecycleNothing(t *testing.T) {
	_, plugin := newHost(t, nfs.Config{Mounter: realMounter(t.TempDir(), 0)})
	require.ErrorIs(t, plugin.Recycle(t.Context(), "a", writable("/a")), volume.ErrNotSupported)
	require.Error(t, plugin.Recycle(t.Context(), "a", nil))
}

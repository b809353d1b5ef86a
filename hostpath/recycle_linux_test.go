package hostpath_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// TestRecycle checks that Recycle empties a directory completely, and only directories
// strictly below a recycle root.
func TestRecycle(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.Config{})
	scratch := n.paths + "/scratch"
	for _, dir := range []string{scratch + "/one/deep", n.paths + "/other/deep"} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	}
	require.NoError(t, os.WriteFile(scratch+"/file", nil, 0o600))
	require.NoError(t, os.Symlink(n.paths+"/other", scratch+"/link"))

	recycle := func(n *node, spec *volume.Spec) error { return n.plugin.Recycle(t.Context(), "vol", spec) }
	require.Error(t, recycle(n, persistent(scratch+"/one", "")), "no directory is allowed by itself")
	m := nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) { c.RecycleRoots = []string{scratch} })
	for name, spec := range map[string]*volume.Spec{
		"elsewhere":  persistent(n.paths+"/other", ""),
		"root":       persistent(scratch, ""),
		"link":       persistent(scratch+"/link", ""),
		"through":    persistent(scratch+"/link/deep", ""),
		"file":       persistent(scratch+"/file", ""),
		"missing":    persistent(scratch+"/none", v1.HostPathDirectoryOrCreate),
		"read-only":  persistent(scratch+"/one", "", "ro"),
		"dot dot":    persistent(scratch+"/../other", ""),
		"not in any": persistent("/etc", ""),
		"nothing":    nil,
	} {
		require.Error(t, recycle(m, spec), name)
		require.FileExists(t, n.paths+"/other/deep/file", name)
		require.FileExists(t, scratch+"/one/deep/file", name)
		require.FileExists(t, scratch+"/file", name)
		require.NoDirExists(t, scratch+"/none", name)
	}
	require.NoError(t, recycle(m, persistent(scratch+"/one", v1.HostPathDirectory)))
	entries, err := os.ReadDir(scratch + "/one")
	require.NoError(t, err)
	require.Empty(t, entries)
	n.requireDown(t)

	none := nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) { c.RecycleRoots, c.Recycler = []string{scratch}, nil })
	require.ErrorIs(t, recycle(none, persistent(scratch+"/one", "")), volume.ErrNotSupported)
}

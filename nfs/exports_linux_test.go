package nfs_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestNFSOtherServer checks that volumes of a server work while another server is cut off.
func TestNFSOtherServer(t *testing.T) {
	for name, c := range map[string]nfs.Config{"each": {}, "one": {OneMountPerExport: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(dir+"/precious", []byte("far"), 0o644))
			far := nfsserver.ServeFar(t, nfsserver.Export{Dir: dir})
			path, other := n.exported("a"), pvAt(far.Address, dir)
			n.requireShows(n.setUp(other, "far"), dir)
			n.setUp(n.pv(path), "1")

			require.NoError(t, far.LinkDown())
			for range 3 {
				ctx := n.within(300 * time.Millisecond)
				n.requireEnded(n.mounter(other, "far").SetUp(ctx, volume.MounterArgs{}), "far")
				err := n.mounter(other, "new").SetUp(ctx, volume.MounterArgs{})
				require.Error(t, err)
				n.requireShows(n.setUp(n.pv(path), "1"), path)
				n.requireShows(n.setUp(n.pv(path), "2"), path)
				_, err = n.mounter(n.pv(path), "2").GetMetrics(n.patientContext())
				require.NoError(t, err)
				n.tearDown(n.pv(path), "2")
			}
			require.NoError(t, far.LinkUp())
			n.requireShows(n.setUp(other, "far"), dir)
			n.requireShows(n.setUp(other, "new"), dir)
			n.tearDown(other, "new")

			require.NoError(t, far.LinkDown())
			require.NoError(t, tearDownRepeatedly(n.unmounter(other, "far").TearDown))
			n.tearDown(n.pv(path), "1")
			require.Empty(t, n.mountsBelowRoot())
			require.NoError(t, far.LinkUp())
		})
	}
}

// TestNFSServerRefuses checks that a pod's volume has no more access than the server grants,
// and that SetUp and TearDown succeed all the same.
func TestNFSServerRefuses(t *testing.T) {
	n := newNode(t, nfs.Config{})
	for name, test := range map[string]struct {
		export nfsserver.Export
		mode   os.FileMode
		read   error
		write  error
	}{
		"read-only":      {nfsserver.Export{ReadOnly: true}, 0o777, nil, unix.EROFS},
		"squash":         {nfsserver.Export{SquashRoot: true}, 0o755, nil, unix.EACCES},
		"squash, closed": {nfsserver.Export{SquashRoot: true}, 0o700, unix.EACCES, unix.EACCES},
	} {
		t.Run(name, func(t *testing.T) {
			test.export.Dir = t.TempDir()
			require.NoError(t, os.WriteFile(test.export.Dir+"/precious", nil, 0o644))
			require.NoError(t, os.Chmod(test.export.Dir, test.mode))
			require.NoError(t, n.server.Export(test.export))
			spec := n.pv(test.export.Dir)
			at := n.setUp(spec, "1")
			require.Equal(t, at.ID, n.setUp(spec, "1").ID)
			_, err := os.ReadFile(at.Mountpoint + "/precious")
			require.ErrorIs(t, err, test.read)
			require.ErrorIs(t, os.WriteFile(at.Mountpoint+"/x", nil, 0o644), test.write)
			_, err = n.mounter(spec, "1").GetMetrics(n.patientContext())
			require.NoError(t, err)
			n.tearDown(spec, "1")
			require.NoError(t, n.server.Revoke(test.export.Dir))
		})
	}
}

// TestNFSRevoked checks that a volume whose export was revoked is an error until the server
// has the export again, and that TearDown succeeds in any case.
func TestNFSRevoked(t *testing.T) {
	for name, c := range map[string]nfs.Config{"each": {}, "one": {OneMountPerExport: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c)
			dir := t.TempDir()
			require.NoError(t, n.server.Export(nfsserver.Export{Dir: dir}))
			spec := n.pv(dir)
			n.setUp(spec, "1")
			n.setUp(spec, "2")
			setUp := func() error { return n.mounter(spec, "1").SetUp(n.patientContext(), volume.MounterArgs{}) }

			require.NoError(t, n.server.Replace(dir))
			require.NoError(t, os.WriteFile(dir+"/precious", []byte("new"), 0o644))
			eventually(t, func() bool {
				_, err := os.ReadFile(n.setUp(spec, "1").Mountpoint + "/precious")
				return err == nil
			})
			require.NoError(t, n.server.Revoke(dir))
			eventually(t, func() bool { err := setUp(); return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESTALE) })
			require.NoError(t, tearDownRepeatedly(n.unmounter(spec, "2").TearDown)) // its file system may end later
			require.NoError(t, n.server.Export(nfsserver.Export{Dir: dir}))
			eventually(t, func() bool { return setUp() == nil })
			n.requireShows(n.setUp(spec, "1"), dir)
			require.NoError(t, n.server.Revoke(dir))
			require.NoError(t, tearDownRepeatedly(n.unmounter(spec, "1").TearDown))
			require.Empty(t, n.mountsBelowRoot())
		})
	}
}

// eventually waits for a condition that becomes true when caches are emptied.
func eventually(t *testing.T, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !is() {
		require.True(t, time.Now().Before(deadline))
		time.Sleep(10 * time.Millisecond)
	}
}

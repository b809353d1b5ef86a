package mounttest_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestFakeMountsFromDevice: MountsFrom compares a block device by its number, under each of its
// names.
func TestFakeMountsFromDevice(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.mount("ext4", "/dev/null", "target"))
	require.NoError(t, s.mount("ext4", "/dev/no-such", "source/sub"))
	require.NoError(t, s.bind("target", "other"))
	link := s.path("disk")
	require.NoError(t, os.Symlink("/dev/null", link))
	for source, want := range map[string]int{
		"/dev/null": 2, "/dev/./null": 2, link: 2, "/dev/no-such": 1, "/dev/zero": 0, "fake": 1,
	} {
		mounts, err := s.MountsFrom(t.Context(), source)
		require.NoError(t, err)
		require.Len(t, mounts, want, source)
	}
}

// TestFakeFaultsOfTrees: faults affect UnmountTree as a whole, and each unmount in it.
func TestFakeFaultsOfTrees(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.bind("source", "target"))
	require.NoError(t, s.bind("other", "target/sub"))
	for _, fault := range []mounttest.Fault{
		{Op: mounttest.OpUnmountTree, Err: syscall.EIO, Times: 1},
		{Op: mounttest.OpUnmount, Path: s.path("target/sub"), Err: syscall.EIO, Times: 1},
	} {
		s.Inject(fault)
		err := s.UnmountTree(t.Context(), s.path("target"))
		require.ErrorIs(t, err, syscall.EIO)
		require.NotErrorIs(t, err, mount.ErrUncertain)
		require.Len(t, s.table(), 3)
	}
	s.Inject(mounttest.Fault{Op: mounttest.OpUnmountTree, Err: syscall.EIO, After: true, Times: 1})
	require.ErrorIs(t, s.UnmountTree(t.Context(), s.path("target")), mount.ErrUncertain)
	require.Len(t, s.table(), 1)

	s.Inject(mounttest.Fault{Op: mounttest.OpResolve, Err: syscall.EIO})
	s.Inject(mounttest.Fault{Op: mounttest.OpMountsFrom, Err: syscall.EIO})
	_, err := s.Resolve(t.Context(), s.path("target"))
	require.ErrorIs(t, err, syscall.EIO)
	_, err = s.MountsFrom(t.Context(), "x")
	require.ErrorIs(t, err, syscall.EIO)
}

// TestFakeLogOfTrees: the log records the fields of requests.
func TestFakeLogOfTrees(t *testing.T) {
	s := newFakeTest(t)
	ids := []mount.IDRange{{Stored: 1000, Shown: 5000, Count: 10}}
	require.NoError(t, s.Mount(t.Context(), mount.Request{
		Source: s.path("source"), Target: s.path("target"),
		Submounts: mount.HideSubmounts, Propagation: mount.PropagationSlave, IDMap: mount.IDMap{UIDs: ids, GIDs: ids},
	}))
	require.NoError(t, s.Mount(t.Context(), mount.Request{Target: s.path("target"), Options: []string{"ro"}, Remount: true}))
	require.NoError(t, s.UnmountTree(t.Context(), s.path("target")))
	log := s.Log()
	require.Len(t, log, 3)
	require.Equal(t, mount.HideSubmounts, log[0].Submounts)
	require.Equal(t, mount.PropagationSlave, log[0].Propagation)
	require.Equal(t, ids, log[0].IDMap.UIDs)
	require.True(t, log[1].Remount)
	require.Equal(t, mount.ReadOnly, log[1].Flags)
	require.Equal(t, mounttest.OpUnmountTree, log[2].Op)
}

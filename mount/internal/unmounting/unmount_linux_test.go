package unmounting_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/child"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/mount/internal/unmounting"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/keylock"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { mounttest.Main(m, nil) }

// newUnmounter returns an Unmounter for which no superblock is outlived.
func newUnmounter() *unmounting.Unmounter {
	return unmounting.New(unmounting.Config{
		Resolver: new(lookup.Resolver),
		Locks:    new(keylock.Map),
		Kinds:    new(record.Kinds),
		Probes:   new(child.Probes),
		BeginDeparture: func(context.Context, kernel.Location) (end func(), outlived bool, err error) {
			return func() {}, false, nil
		},
		ForgetAnchor: func(kernel.MountID) {},
	})
}

// newDir returns a new directory with the elements, without symbolic links on its way.
func newDir(t *testing.T, elements ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, element := range elements {
		require.NoError(t, os.Mkdir(filepath.Join(dir, element), 0o755))
	}
	return dir
}

// mountTmpfs mounts a tmpfs until the test ends.
func mountTmpfs(t *testing.T, source, target string) {
	t.Helper()
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	require.NoError(t, unix.Mount(source, target, "tmpfs", 0, ""))
}

func requireMounted(t *testing.T, path string) {
	t.Helper()
	mounted, err := lookup.IsMountPoint(path)
	require.NoError(t, err)
	require.True(t, mounted, path)
}

func requireUnmounted(t *testing.T, path string) {
	t.Helper()
	mounted, err := lookup.IsMountPoint(path)
	require.NoError(t, err)
	require.False(t, mounted, path)
}

// TestUnmountFollowsNoLink: if a link takes the place of a mount point between the check and
// umount2(2), the mount that it leads to stays.
func TestUnmountFollowsNoLink(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := newDir(t, "target")
	target := dir + "/target"
	require.NoError(t, os.Symlink(target, dir+"/link"))
	mountTmpfs(t, "tmpfs", target)
	parent, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer kernel.Close(parent)
	require.ErrorIs(t, unmounting.UnmountAt(parent, "link"), unix.EINVAL, "the link is no mount point")
	requireMounted(t, target)
	require.NoError(t, newUnmounter().Unmount(t.Context(), target))
	requireUnmounted(t, target)
}

// TestUnmountIsVerified: an umount2(2) that changes nothing is an error. A mount of another
// process at the path is not mistaken for the one that was unmounted.
func TestUnmountIsVerified(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	target := newDir(t)
	u := newUnmounter()
	mountTmpfs(t, "tmpfs", target)
	umount2 := unmounting.Umount2
	defer func() { unmounting.Umount2 = umount2 }()
	unmounting.Umount2 = func(string, int) error { return nil }
	require.ErrorIs(t, u.Unmount(t.Context(), target), failure.ErrStillMounted)
	if !hasUniqueIDs(t, target) {
		unmounting.Umount2 = umount2
		require.NoError(t, u.Unmount(t.Context(), target))
		return
	}
	unmounting.Umount2 = func(path string, flags int) error {
		err := umount2(path, flags)
		if err == nil {
			err = unix.Mount("other", target, "tmpfs", 0, "")
		}
		return err
	}
	require.NoError(t, u.Unmount(t.Context(), target))
	unmounting.Umount2 = umount2
	requireMounted(t, target)
	require.NoError(t, u.Unmount(t.Context(), target))
}

// TestRemoveWaitsForNoEnd: Remove leaves a path to Unmount whose last superblock has not ended.
func TestRemoveWaitsForNoEnd(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := newDir(t)
	mountTmpfs(t, "tmpfs", dir)
	target := dir + "/target"
	require.NoError(t, os.Mkdir(target, 0o755))
	u := newUnmounter()
	ended := make(chan struct{})
	u.AddEnd(target, ended)
	for _, mayWait := range []bool{false, true} {
		unmounted, removed := u.Remove(t.Context(), unmounting.Removal{Path: target, MayWait: mayWait})
		require.False(t, unmounted || removed)
	}
	require.DirExists(t, target)
	close(ended)
	unmounted, removed := u.Remove(t.Context(), unmounting.Removal{Path: target})
	require.False(t, unmounted)
	require.Equal(t, hasUniqueIDs(t, dir), removed)
}

func hasUniqueIDs(t *testing.T, path string) bool {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer kernel.Close(fd)
	_, err = kernel.UniqueMountID(fd)
	return err == nil
}

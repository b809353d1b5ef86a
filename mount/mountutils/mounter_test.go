package mountutils_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	peer "k8s.io/mount-utils"
)

func TestMountIsIdempotent(t *testing.T) {
	s := newAdapterTest(t)
	for range 2 {
		require.NoError(t, s.Mount(s.path("source"), s.path("target"), "", []string{"bind", "ro"}))
		require.Len(t, s.mountsAt("target"), 1)
	}
	require.Contains(t, s.mountsAt("target")[0].Opts, "ro")
	err := s.Mount(s.path("other"), s.path("target"), "", []string{"bind"})
	require.ErrorIs(t, err, mount.ErrMounted)
	require.Len(t, s.mountsAt("target"), 1)
	for range 2 {
		require.NoError(t, s.Unmount(s.path("target")))
		require.Empty(t, s.mountsAt("target"))
	}
}

// TestStacking: with WithStacking each Mount adds a mount, and each unmount removes one.
func TestStacking(t *testing.T) {
	s := newAdapterTest(t, mountutils.WithStacking())
	for depth := 1; depth < 4; depth++ {
		require.NoError(t, s.Mount(s.path("source"), s.path("target"), "", []string{"bind"}))
		require.Len(t, s.mountsAt("target"), depth)
	}
	require.NoError(t, s.UnmountWithForce(s.path("target"), time.Second))
	require.Len(t, s.mountsAt("target"), 2)
}

func TestMountFollowsLinks(t *testing.T) {
	s := newAdapterTest(t)
	require.NoError(t, os.Symlink(s.path("target"), s.path("link")))
	require.NoError(t, os.Symlink(s.dir, s.path("way")))
	require.NoError(t, s.Mount(s.path("way/source"), s.path("way/link"), "", []string{"bind"}))
	require.Len(t, s.mountsAt("target"), 1)
	for _, name := range []string{"target", "link", "way/link"} {
		likelyNot, err := s.IsLikelyNotMountPoint(s.path(name))
		require.NoError(t, err)
		require.False(t, likelyNot, name)
	}
	refs, err := s.GetMountRefs(s.path("way/source"))
	require.NoError(t, err)
	require.Equal(t, []string{s.path("target")}, refs)
	require.NoError(t, s.Unmount(s.path("way/link")))
	require.Empty(t, s.mountsAt("target"))
}

// TestMissingPathIsNotExist: os.IsNotExist, by which callers decide to create a directory,
// matches the errors of a missing path.
func TestMissingPathIsNotExist(t *testing.T) {
	s := newAdapterTest(t)
	for _, path := range []string{s.path("none"), s.path("none/deeper"), ""} {
		likelyNot, err := s.IsLikelyNotMountPoint(path)
		require.True(t, os.IsNotExist(err), "%v", err)
		require.True(t, likelyNot)
		is, err := s.IsMountPoint(path)
		require.True(t, os.IsNotExist(err), "%v", err)
		require.False(t, is)
		//lint:ignore SA1019 drivers still call it
		not, err := peer.IsNotMountPoint(s, path)
		require.True(t, os.IsNotExist(err), "%v", err)
		require.True(t, not)
		refs, err := s.GetMountRefs(path)
		require.NoError(t, err)
		require.Empty(t, refs)
		require.Error(t, s.Mount(s.path("source"), path, "", []string{"bind"}))
		require.Error(t, s.Unmount(path))
	}
}

func TestPeerRecognizesErrors(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOTCONN, syscall.ESTALE, syscall.EIO, syscall.EHOSTDOWN} {
		s := newAdapterTest(t)
		s.fake.Inject(mounttest.Fault{Op: mounttest.OpIsMountPoint, Err: errno})
		s.fake.Inject(mounttest.Fault{Op: mounttest.OpUnmount, Err: errno})
		s.fake.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: errno})
		s.fake.Inject(mounttest.Fault{Op: mounttest.OpMountRefs, Err: errno})
		_, err := s.IsLikelyNotMountPoint(s.path("target"))
		require.True(t, peer.IsCorruptedMnt(err), "%v", err)
		_, err = s.IsMountPoint(s.path("target"))
		require.True(t, peer.IsCorruptedMnt(err), "%v", err)
		_, err = s.GetMountRefs(s.path("target"))
		require.True(t, peer.IsCorruptedMnt(err), "%v", err)
		for _, err := range []error{
			s.Unmount(s.path("target")),
			s.Mount(s.path("source"), s.path("target"), "", []string{"bind"}),
		} {
			require.True(t, peer.IsCorruptedMnt(err), "%v", err)
			require.ErrorIs(t, err, errno)
			require.ErrorIs(t, err, mount.ErrCorrupted)
		}
	}
	s := newAdapterTest(t)
	s.fake.Inject(mounttest.Fault{Op: mounttest.OpUnmount, Err: syscall.EBUSY})
	err := s.Unmount(s.path("target"))
	require.ErrorIs(t, err, mount.ErrBusy)
	require.False(t, peer.IsCorruptedMnt(err))
	s.fake.Inject(mounttest.Fault{Op: mounttest.OpIsMountPoint, Err: syscall.EACCES})
	_, err = s.IsMountPoint(s.path("target"))
	require.True(t, os.IsPermission(err), "%v", err)
	require.True(t, peer.IsCorruptedMnt(err), "mount-utils counts EACCES as corrupted")
}

// TestTimeout: each call ends with the time of WithTimeout.
func TestTimeout(t *testing.T) {
	s := newAdapterTest(t, mountutils.WithTimeout(50*time.Millisecond))
	s.fake.Inject(mounttest.Fault{Op: mounttest.OpUnmount, Delay: time.Hour})
	s.fake.Inject(mounttest.Fault{Op: mounttest.OpMount, Delay: time.Hour})
	s.fake.Inject(mounttest.Fault{Op: mounttest.OpList, Delay: time.Hour})
	require.ErrorIs(t, s.Unmount(s.path("target")), context.DeadlineExceeded)
	require.ErrorIs(t, s.Mount("x", s.path("target"), "tmpfs", nil), context.DeadlineExceeded)
	_, err := s.List()
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestContext: each call ends with the context of WithContext, and returns its cause.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := newAdapterTest(t, mountutils.WithContext(ctx), mountutils.WithTimeout(0))
	require.NoError(t, s.Mount(s.path("source"), s.path("target"), "", []string{"bind"}))
	cause := errors.New("the program ends")
	cancel(cause)
	require.ErrorIs(t, s.Unmount(s.path("target")), cause)
	require.ErrorIs(t, s.Unmount(s.path("target")), context.Canceled)
	_, err := s.IsMountPoint(s.path("target"))
	require.ErrorIs(t, err, cause)
}

func TestListMatchesProcMounts(t *testing.T) {
	s := newAdapterTest(t)
	require.NoError(t, s.Mount("x y", s.path("target"), "tmpfs", []string{"ro", "noexec", "size=1m"}))
	point := s.mountsAt("target")[0]
	require.Equal(t, "x y", point.Device)
	require.Equal(t, "tmpfs", point.Type)
	require.Equal(t, "ro", point.Opts[0])
	require.Contains(t, point.Opts, "noexec")
	require.NotContains(t, point.Opts, "rw")
	device, count, err := peer.GetDeviceNameFromMount(s, s.path("target"))
	require.NoError(t, err)
	require.Equal(t, "x y", device)
	require.Equal(t, 1, count)
}

func TestErrorsHideSecrets(t *testing.T) {
	s := newAdapterTest(t)
	s.fake.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EACCES})
	err := s.MountSensitive("//server/share", s.path("target"), "cifs", nil, []string{"password=hunter2"})
	require.ErrorIs(t, err, syscall.EACCES)
	require.NotContains(t, err.Error(), "hunter2")
}

// TestCleanup: the clean-up functions of mount-utils work with this package's mounter.
func TestCleanup(t *testing.T) {
	for _, extensive := range []bool{true, false} {
		s := newAdapterTest(t)
		require.NoError(t, s.Mount(s.path("source"), s.path("target"), "", []string{"bind"}))
		require.NoError(t, s.Mount(s.path("source"), s.path("other"), "", []string{"bind"}))
		require.NoError(t, peer.CleanupMountPoint(s.path("target"), s, extensive))
		require.NoError(t, peer.CleanupMountWithForce(s.path("other"), s, extensive, time.Minute))
		require.NoDirExists(t, s.path("target"))
		require.NoDirExists(t, s.path("other"))
		require.NoError(t, peer.CleanupMountPoint(filepath.Join(s.dir, "none"), s, extensive))
	}
}

package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// TestUmountFollowsNoLink: should a link take the place of a mount point after
// the look at it, what it leads to stays mounted.
func TestUmountFollowsNoLink(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	target := dir + "/target"
	require.NoError(t, os.Mkdir(target, 0o755))
	require.NoError(t, os.Symlink(target, dir+"/link"))
	m := New(Config{})
	require.NoError(t, m.Mount(t.Context(), Request{Target: target, FSType: "tmpfs"}))
	parent, err := safepath.Open(unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	require.NoError(t, err)
	defer closeFD(parent)
	require.ErrorIs(t, umountAt(parent, "link", 0), unix.EINVAL, "it is no mount point")
	is, err := isMountPoint(target)
	require.NoError(t, err)
	require.True(t, is)
	require.NoError(t, m.Unmount(t.Context(), target))
}

// TestStillMounted: an unmount that changed nothing is noticed, and a mount that
// somebody has made at the place since is not taken for the one that is gone.
func TestStillMounted(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	target, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	m := New(Config{})
	require.NoError(t, m.Mount(t.Context(), Request{Target: target, FSType: "tmpfs"}))
	real := umount2
	defer func() { umount2 = real }()
	umount2 = func(string, int) error { return nil }
	require.ErrorIs(t, m.Unmount(t.Context(), target), ErrStillMounted)
	if !HasStatmount() {
		umount2 = real
		require.NoError(t, m.Unmount(t.Context(), target))
		return
	}
	umount2 = func(path string, flags int) error {
		err := real(path, flags)
		if err == nil {
			err = unix.Mount("other", target, "tmpfs", 0, "")
		}
		return err
	}
	require.NoError(t, m.Unmount(t.Context(), target))
	umount2 = real
	is, err := m.IsMountPoint(t.Context(), target)
	require.NoError(t, err)
	require.True(t, is, "the other's")
	require.NoError(t, m.Unmount(t.Context(), target))
}

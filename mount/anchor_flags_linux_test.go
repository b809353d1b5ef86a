package mount

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAnchorHasItsFlags: an anchor has the flags that it is known by, whatever the
// flags of its mount have become since they were looked at.
func TestAnchorHasItsFlags(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	if kernelTier() < TierTreeAttr {
		skipWithout(t, "mountevents", "no anchors on this kernel")
	}
	dir := t.TempDir()
	require.NoError(t, unix.Mount("x", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer closeFD(fd)
	spot, err := (&source{fd: fd}).spot()
	require.NoError(t, err)
	const looked = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC
	for _, s := range []struct {
		attrs uint64
		now   unix.MountAttr
		flags int64 // of statfs(2)
	}{
		{spot.attrs | looked, unix.MountAttr{Attr_clr: looked}, unix.ST_RDONLY | unix.ST_NOEXEC},
		{spot.attrs, unix.MountAttr{Attr_set: looked}, 0},
	} {
		require.NoError(t, unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &s.now))
		spot.attrs = s.attrs
		clone, ok := cloneWhole(spot)
		require.True(t, ok)
		var stat unix.Statfs_t
		require.NoError(t, unix.Fstatfs(clone, &stat))
		closeFD(clone)
		require.Equal(t, s.flags, stat.Flags&(unix.ST_RDONLY|unix.ST_NOEXEC))
		require.NotZero(t, stat.Flags&unix.ST_NOSUID)
	}
}

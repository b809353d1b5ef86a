package building

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// TestAnchorHasItsFlags: an anchor has the flags of its spot, also if the flags of the mount
// have changed since.
func TestAnchorHasItsFlags(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	if KernelTier() < TierTreeAttr {
		skipWithout(t, "mountevents", "no anchors on this kernel")
	}
	dir := t.TempDir()
	require.NoError(t, unix.Mount("x", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer kernel.Close(fd)
	unique, err := kernel.UniqueMountID(fd)
	require.NoError(t, err)
	spot, err := (&Source{FD: fd, Unique: unique}).FindSpot()
	require.NoError(t, err)
	const found = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC
	for _, s := range []struct {
		attrs uint64
		now   unix.MountAttr
		flags int64 // of statfs(2)
	}{
		{spot.attrs | found, unix.MountAttr{Attr_clr: found}, unix.ST_RDONLY | unix.ST_NOEXEC},
		{spot.attrs, unix.MountAttr{Attr_set: found}, 0},
	} {
		require.NoError(t, unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &s.now))
		spot.attrs = s.attrs
		clone, ok := cloneMount(spot)
		require.True(t, ok)
		var stat unix.Statfs_t
		require.NoError(t, unix.Fstatfs(clone, &stat))
		kernel.Close(clone)
		require.Equal(t, s.flags, stat.Flags&(unix.ST_RDONLY|unix.ST_NOEXEC))
		require.NotZero(t, stat.Flags&unix.ST_NOSUID)
	}
}

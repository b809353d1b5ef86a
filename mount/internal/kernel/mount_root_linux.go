package kernel

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// Quiet makes statx(2) answer from the kernel's memory: it follows no symbolic link,
// triggers no automount and waits for no server. With an empty mask the file system is not
// involved. Measured on Linux 6.18: 1.5 us, also on a FUSE mount with a hung or dead daemon.
const Quiet = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC

// WithoutMountRoot hides the mount root attribute, as before Linux 5.8. Tests set it.
var WithoutMountRoot bool

// IsMountRoot reports whether the file is a mount root; ok is false before Linux 5.8.
func IsMountRoot(x *unix.Statx_t) (answer, ok bool) {
	ok = x.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && !WithoutMountRoot
	return x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, ok
}

// DiffersFromParent reports whether a name lies in another mount than its directory: the
// check for a mount point before Linux 5.8.
func DiffersFromParent(parent int, name string) (bool, error) {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer Close(fd)
	above, err := safepath.MountID(parent)
	if err != nil {
		return false, err
	}
	here, err := safepath.MountID(fd)
	return above != here, err
}

// UniqueMountID returns the unique mount ID of the file behind fd (Linux 6.8), or
// [ErrNoUniqueIDs].
func UniqueMountID(fd int) (uint64, error) {
	var x unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|Quiet, unix.STATX_MNT_ID_UNIQUE, &x)
	if err != nil {
		return 0, err
	}
	if x.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return 0, ErrNoUniqueIDs
	}
	return x.Mnt_id, nil
}

// ErrNoUniqueIDs is the error of a kernel without STATX_MNT_ID_UNIQUE. It wraps
// errors.ErrUnsupported.
var ErrNoUniqueIDs = fmt.Errorf("unique mount IDs: requires Linux 6.8: %w", errors.ErrUnsupported)

// RootMountID returns the unique mount ID of a mount root, and 0 for another file. Each
// kernel with unique mount IDs reports mount roots.
func RootMountID(fd int) (uint64, error) {
	var x unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|Quiet, unix.STATX_MNT_ID_UNIQUE, &x)
	if err != nil {
		return 0, err
	}
	root, ok := IsMountRoot(&x)
	switch {
	case !ok || x.Mask&unix.STATX_MNT_ID_UNIQUE == 0:
		return 0, ErrNoUniqueIDs
	case !root:
		return 0, nil
	}
	return x.Mnt_id, nil
}

package kernel

import (
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// An Identity names the file behind a descriptor.
type Identity struct {
	Major, Minor uint32
	Inode        uint64
	Mount        uint64 // the mount's number in the mount table; 0: unknown
	Dir, Device  bool
}

// SameObject reports whether both name one directory or file, in any mount.
func (i Identity) SameObject(j Identity) bool {
	return i.Major == j.Major && i.Minor == j.Minor && i.Inode == j.Inode
}

// IdentifyUnique returns the identity with the unique mount ID in place of the mount ID
// (Linux 6.8). Older kernels: the mount ID, and unique is 0.
func IdentifyUnique(fd int) (id Identity, unique uint64, err error) {
	var x unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_MNT_ID_UNIQUE
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|Quiet, mask, &x); err != nil {
		return Identity{}, 0, err
	}
	if x.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		id, err = Identify(fd)
		return id, 0, err
	}
	return identityOf(&x), x.Mnt_id, nil
}

// Identify returns the identity of the file behind fd.
func Identify(fd int) (Identity, error) {
	var x unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_MNT_ID
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|Quiet, mask, &x); err != nil {
		return Identity{}, err
	}
	id := identityOf(&x)
	if x.Mask&unix.STATX_MNT_ID != 0 {
		id.Mount = x.Mnt_id
		return id, nil
	}
	mountID, err := safepath.MountID(fd) // Linux before 5.8
	id.Mount = uint64(mountID)
	return id, err
}

// identityOf returns the identity without the mount.
func identityOf(x *unix.Statx_t) Identity {
	return Identity{
		Major: x.Dev_major, Minor: x.Dev_minor, Inode: x.Ino,
		Dir:    x.Mode&unix.S_IFMT == unix.S_IFDIR,
		Device: x.Mode&unix.S_IFMT == unix.S_IFBLK || x.Mode&unix.S_IFMT == unix.S_IFCHR,
	}
}

package beneath

import (
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// A Place identifies a directory in a mount. Its birth time distinguishes it from a later
// directory with the same inode number.
type Place struct {
	Device, Inode uint64
	Mount         uint64 // the mount's ID in the mount table
	Born          unix.StatxTimestamp
}

// PlaceMask selects the fields of statx(2) for [PlaceOf].
const PlaceMask = unix.STATX_INO | unix.STATX_BTIME | unix.STATX_MNT_ID

// Identify returns the place of a descriptor.
func Identify(fd int) (Place, error) {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", Quiet|unix.AT_EMPTY_PATH, PlaceMask, &x); err != nil {
		return Place{}, err
	}
	return PlaceOf(fd, &x)
}

// PlaceOf returns the place of a descriptor whose statx(2) result is x.
func PlaceOf(fd int, x *unix.Statx_t) (Place, error) {
	at := Place{Device: unix.Mkdev(x.Dev_major, x.Dev_minor), Inode: x.Ino}
	if x.Mask&unix.STATX_BTIME != 0 {
		at.Born = x.Btime
	}
	var err error
	at.Mount, err = MountIn(fd, x)
	return at, err
}

// MountOf returns the ID of a descriptor's mount.
func MountOf(fd int) (uint64, error) {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", Quiet|unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &x); err != nil {
		return 0, err
	}
	return MountIn(fd, &x)
}

// MountIn returns the ID of a descriptor's mount: from the result of statx(2) since Linux 5.8,
// else from fdinfo.
func MountIn(fd int, x *unix.Statx_t) (uint64, error) {
	if x.Mask&unix.STATX_MNT_ID != 0 {
		return x.Mnt_id, nil
	}
	id, err := safepath.MountID(fd)
	return uint64(id), err
}

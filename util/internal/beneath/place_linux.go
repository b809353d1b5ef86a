package beneath

import (
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// A Place is a directory in a mount, told from another that has got its inode since.
type Place struct {
	Device, Inode uint64
	Mount         uint64 // its number in the mount table
	Born          unix.StatxTimestamp
}

// Identify tells where a descriptor is.
func Identify(fd int) (Place, error) {
	var x unix.Statx_t
	const want = unix.STATX_INO | unix.STATX_BTIME | unix.STATX_MNT_ID
	if err := unix.Statx(fd, "", Quiet|unix.AT_EMPTY_PATH, want, &x); err != nil {
		return Place{}, err
	}
	return PlaceOf(fd, &x)
}

// PlaceOf is for who has asked about a descriptor already, for what Identify wants, too.
func PlaceOf(fd int, x *unix.Statx_t) (Place, error) {
	at := Place{Device: unix.Mkdev(x.Dev_major, x.Dev_minor), Inode: x.Ino}
	if x.Mask&unix.STATX_BTIME != 0 {
		at.Born = x.Btime
	}
	var err error
	at.Mount, err = mountIn(fd, x)
	return at, err
}

// MountOf returns the number of the mount that a descriptor is in.
func MountOf(fd int) (uint64, error) {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", Quiet|unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &x); err != nil {
		return 0, err
	}
	return mountIn(fd, &x)
}

// mountIn takes it from wherever the kernel has it: from 5.8 on in what statx says.
func mountIn(fd int, x *unix.Statx_t) (uint64, error) {
	if x.Mask&unix.STATX_MNT_ID != 0 {
		return x.Mnt_id, nil
	}
	id, err := safepath.MountID(fd)
	return uint64(id), err
}

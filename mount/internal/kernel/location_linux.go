package kernel

import (
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// A MountID is a unique mount ID, or on older kernels a mount ID.
type MountID struct {
	Number uint64
	Unique bool // Linux 6.8
}

// A Location is the mount and the file system of a file.
type Location struct {
	ID           MountID
	Major, Minor uint32
	Dir          bool
	// Root: the file is a mount root; valid if RootKnown (Linux 5.8).
	Root, RootKnown bool
}

const locationMask = unix.STATX_TYPE | unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE

// LocationOf returns the location of the file behind fd.
func LocationOf(fd int) (Location, error) {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|Quiet, locationMask, &x); err != nil {
		return Location{}, err
	}
	l := locationFrom(&x)
	if l.ID.Number != 0 {
		return l, nil
	}
	number, err := safepath.MountID(fd) // Linux before 5.8
	l.ID.Number = uint64(number)
	return l, err
}

// TopMountID returns the mount ID of the top mount at a name in a directory, or of a symbolic
// link itself. The file system of the directory looks up a name outside the kernel's memory, so the call may wait.
func TopMountID(parent int, name string) (uint64, error) {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer Close(fd)
	id, err := Identify(fd)
	return id.Mount, err
}

func locationFrom(x *unix.Statx_t) Location {
	l := Location{Major: x.Dev_major, Minor: x.Dev_minor, Dir: x.Mode&unix.S_IFMT == unix.S_IFDIR}
	l.Root, l.RootKnown = IsMountRoot(x)
	if x.Mask&(unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE) != 0 {
		l.ID = MountID{Number: x.Mnt_id, Unique: x.Mask&unix.STATX_MNT_ID_UNIQUE != 0}
	}
	return l
}

// IsMountIn reports whether the file is a mount root; above is its parent directory.
func (l Location) IsMountIn(above Location) bool {
	if l.RootKnown {
		return l.Root
	}
	return l.ID != above.ID
}

// SameFileSystem reports whether two directories certainly belong to one file system.
// It is false for files: some file systems report another device for them.
func (l Location) SameFileSystem(above Location) bool {
	return l.Dir && above.Dir && l.Major == above.Major && l.Minor == above.Minor
}

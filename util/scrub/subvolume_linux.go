package scrub

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The requests of ioctl(2) and the flag are those of linux/btrfs.h.
const (
	subvolGetFlags    = 0x80089419 // BTRFS_IOC_SUBVOL_GETFLAGS
	subvolSetFlags    = 0x4008941a // BTRFS_IOC_SUBVOL_SETFLAGS
	readOnlySubvolume = 1 << 1     // BTRFS_SUBVOL_RDONLY
)

// makeWritable makes a read-only subvolume of btrfs writable, so that its entries can be removed.
// It returns nil, too, for one that is writable, and for what is no subvolume. The kernel lets the
// owner of the subvolume and a process with CAP_FOWNER do so.
func makeWritable(fd int) error {
	var flags uint64
	if ioctl(fd, subvolGetFlags, &flags) != nil || flags&readOnlySubvolume == 0 {
		return nil
	}
	return setSubvolumeFlags(fd, flags&^readOnlySubvolume)
}

// makeEntryWritable is makeWritable for an entry of a directory.
func (s *sweep) makeEntryWritable(dir int, name string) error {
	fd, _, err := openIn(dir, name, s.root.id)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return makeWritable(fd)
}

// setSubvolumeFlags is setFlags. Tests replace it.
var setSubvolumeFlags = setFlags

func setFlags(fd int, flags uint64) error { return ioctl(fd, subvolSetFlags, &flags) }

func ioctl(fd int, request uintptr, flags *uint64) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(flags))); errno != 0 {
		return errno
	}
	return nil
}

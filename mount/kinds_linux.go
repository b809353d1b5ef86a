package mount

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// statMountKind returns the magic number of a mount's file system, without asking
// that; the mount is named by its unique number.
func statMountKind(unique uint64) (uint64, error) {
	const superblock = 0x1 // STATMOUNT_SB_BASIC
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: unique, mask: superblock}
	var answer statmountAnswer
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)),
		uintptr(unsafe.Pointer(&answer)), unsafe.Sizeof(answer), 0, 0, 0)
	return answer.magic, unsupported(errno)
}

// anyMountIn reports whether anything is mounted in a mount.
func anyMountIn(unique uint64) (bool, error) {
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: unique}
	var inside uint64
	n, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&request)),
		uintptr(unsafe.Pointer(&inside)), 1, 0, 0, 0)
	return n > 0, unsupported(errno)
}

// unsupported makes one error of the two of a missing call.
func unsupported(errno unix.Errno) error {
	if errno == unix.ENOSYS || errno == unix.EPERM {
		return errors.ErrUnsupported
	}
	return errnoErr(errno)
}

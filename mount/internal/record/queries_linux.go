package record

import (
	"errors"
	"unsafe"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// readKind returns the kind of a mount's file system.
func readKind(unique uint64) (uint64, error) {
	const superblock = 0x1 // STATMOUNT_SB_BASIC
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: unique, mask: superblock}
	var answer statmountAnswer
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)),
		uintptr(unsafe.Pointer(&answer)), unsafe.Sizeof(answer), 0, 0, 0)
	return answer.Magic, unsupported(errno)
}

// HasMountsIn reports whether another mount is attached in a mount.
func HasMountsIn(unique uint64) (bool, error) {
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: unique}
	var inside uint64
	n, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&request)),
		uintptr(unsafe.Pointer(&inside)), 1, 0, 0, 0)
	return n > 0, unsupported(errno)
}

// unsupported returns errors.ErrUnsupported for the errors of a missing or forbidden call.
func unsupported(errno unix.Errno) error {
	if errno == unix.ENOSYS || errno == unix.EPERM {
		return errors.ErrUnsupported
	}
	return kernel.ErrorOf(errno)
}

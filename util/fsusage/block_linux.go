package fsusage

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// blockSize checks the file's type before it opens the file: opening a tape drive or a
// terminal can have effects.
var blockSize = func(device string) (int64, error) {
	var x unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, device, unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &x); err != nil {
		return 0, &os.PathError{Op: "statx", Path: device, Err: err}
	}
	if x.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, &os.PathError{Op: "size", Path: device, Err: unix.ENOTBLK}
	}
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: device, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var size uint64
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&size))); errno != 0 {
		return 0, &os.PathError{Op: "BLKGETSIZE64", Path: device, Err: errno}
	}
	return int64(size), nil
}

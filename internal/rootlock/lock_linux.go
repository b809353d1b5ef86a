package rootlock

import (
	"errors"
	"os"
	"syscall"
)

// flock locks a file for this process, and returns ErrLocked if another process holds the lock.
func flock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return os.NewSyscallError("flock", err)
}

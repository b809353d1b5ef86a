package beneath

import (
	"errors"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Chmod changes the mode of a descriptor's inode, also of an O_PATH descriptor.
func Chmod(fd int, mode uint32) error { return ChmodBy(unix.Fchmodat, fd, mode) }

// ChmodBy is Chmod by a given fchmodat(2). It opens nothing: the link in proc leads to the
// inode itself.
func ChmodBy(fchmodat func(dir int, name string, mode uint32, flags int) error, fd int, mode uint32) error {
	if hasFchmodat2() {
		return fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	}
	return fchmodat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), mode, 0)
}

func hasFchmodat2() bool { return !WithoutOpenat2 && probeFchmodat2() }

// probeFchmodat2 calls fchmodat2 with an invalid descriptor. A system call filter may return
// EPERM, and Linux before 6.6 lacks the call.
var probeFchmodat2 = sync.OnceValue(func() bool {
	return errors.Is(unix.Fchmodat(-1, "", 0, unix.AT_EMPTY_PATH), unix.EBADF)
})

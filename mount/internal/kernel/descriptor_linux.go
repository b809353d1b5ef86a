package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// DescriptorPath returns a path to the descriptor, for calls without a descriptor argument.
func DescriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// Close closes descriptors. It ignores negative numbers.
func Close(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// PathOf returns the path of a descriptor. Without /proc the error is [ErrNoProc].
func PathOf(fd int) (string, error) {
	where, err := os.Readlink(DescriptorPath(fd))
	return where, ExplainMissingProc(err)
}

// ExplainMissingProc replaces ENOENT of a path in /proc by [ErrNoProc] if /proc is not
// mounted. The caller would blame its own path for the ENOENT.
func ExplainMissingProc(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, statErr := os.Lstat("/proc/self/fd"); statErr != nil {
		return ErrNoProc
	}
	return err
}

// ErrNoProc is the error of calls that need /proc if it is not mounted. It wraps
// errors.ErrUnsupported, and never matches fs.ErrNotExist.
var ErrNoProc = fmt.Errorf("/proc is not mounted: %w", errors.ErrUnsupported)

// ErrorOf returns an error number as an error, and nil for 0, which means success.
func ErrorOf(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// ReadLink returns the content of the symbolic link behind fd, or "" for another file.
func ReadLink(fd int) (string, error) {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|Quiet, unix.STATX_TYPE, &x); err != nil || x.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", err
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", text)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(text[:max(n, 0)]), err
}

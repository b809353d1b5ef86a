//go:build unix

package poddirs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openDirectory opens a directory, and fails for any other file. Unlike os.OpenFile it does not
// try to poll the directory, which takes four system calls.
func openDirectory(dir string) (*os.File, error) {
	for {
		fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), dir), nil
		case !errors.Is(err, syscall.EINTR):
			return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
		}
	}
}

// isNotDirectory reports whether openDirectory failed because of another kind of file; ELOOP is
// the error for a symbolic link.
func isNotDirectory(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

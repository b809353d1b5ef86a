//go:build unix

package manager

import (
	"errors"
	"syscall"
)

// openDirectory makes opening anything else fail, and waits for nobody.
const openDirectory = syscall.O_DIRECTORY | syscall.O_NOFOLLOW

// openRegular waits for nobody, as opening a pipe would.
const openRegular = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func isNotDirectory(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

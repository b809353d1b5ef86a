//go:build unix

package manager

import (
	"errors"
	"syscall"
)

// openDirectory makes opening anything else fail, and waits for nobody.
const openDirectory = syscall.O_DIRECTORY | syscall.O_NOFOLLOW

func isNotDirectory(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

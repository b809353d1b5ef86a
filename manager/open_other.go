//go:build !unix

package manager

import (
	"errors"
	"syscall"
)

const openDirectory, openRegular = 0, 0

func isNotDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

//go:build !unix

package poddirs

import (
	"errors"
	"os"
	"syscall"
)

func openDirectory(dir string) (*os.File, error) { return os.Open(dir) }

// isNotDirectory reports whether openDirectory failed because of another kind of file.
func isNotDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

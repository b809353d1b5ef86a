//go:build !linux

package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// modeOf is for dry runs: nobody changes the path meanwhile.
func modeOf(name string) (fs.FileMode, error) {
	info, err := os.Lstat(filepath.FromSlash(name))
	if err != nil {
		return 0, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return 0, &os.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	return info.Mode().Type(), nil
}

func isInUse(err error) bool { return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) }

//go:build !linux

package safepath

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

func createFile(name string, perm fs.FileMode) (created bool, err error) {
	dir, err := os.OpenRoot(filepath.FromSlash(path.Dir(name)))
	if err != nil {
		return false, err
	}
	defer func() { _ = dir.Close() }()
	file, err := dir.OpenFile(path.Base(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm.Perm())
	if err == nil {
		return true, file.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	info, err := dir.Lstat(path.Base(name))
	switch {
	case err != nil:
		return false, err
	case info.IsDir():
		return false, syscall.EISDIR
	case info.Mode()&fs.ModeSymlink != 0:
		return false, syscall.ELOOP
	}
	return false, nil
}

func removeEmptyFile(name string) error {
	dir, err := os.OpenRoot(filepath.FromSlash(path.Dir(name)))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	info, err := dir.Lstat(path.Base(name))
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular(), info.Size() > 0:
		return ErrNotEmpty
	}
	return dir.Remove(path.Base(name))
}

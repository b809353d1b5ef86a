//go:build !linux

package safepath

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// os.Root keeps every step below the root, by descriptor where the system supports it.

func mkdirAll(root string, parts []string, perm fs.FileMode) (found int, err error) {
	found = len(parts)
	dir, err := os.OpenRoot(filepath.FromSlash(root))
	if err != nil {
		return found, err
	}
	defer func() { _ = dir.Close() }()
	name := ""
	for i, part := range parts {
		name = filepath.Join(name, part)
		if err := dir.Mkdir(name, perm.Perm()); err == nil {
			found = min(found, i)
		} else if !errors.Is(err, fs.ErrExist) {
			return found, err
		}
		if info, err := dir.Lstat(name); err != nil || !info.IsDir() {
			return found, errors.Join(err, errNotDir)
		}
	}
	return found, nil
}

var errNotDir = errors.New("not a directory")

func rmdir(name string) error {
	dir, err := os.OpenRoot(filepath.FromSlash(path.Dir(name)))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	base := path.Base(name)
	if info, err := dir.Lstat(base); err != nil || !info.IsDir() {
		return errors.Join(err, errNotDir)
	}
	return dir.Remove(base)
}

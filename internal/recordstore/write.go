package recordstore

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// Write replaces a record atomically and durably. It creates missing directories.
func (d Dir) Write(name string, text []byte) error {
	if int64(len(text)) > d.Limit {
		return &TooLargeError{d.Limit}
	}
	return Within(d.Root, func(root *os.Root) error {
		err := d.replace(root, name, text)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, dir := range []string{path.Dir(d.temporary(name)), d.Path} {
			if err := d.makeDir(root, dir); err != nil {
				return err
			}
		}
		return d.replace(root, name, text)
	})
}

func (d Dir) replace(root *os.Root, name string, text []byte) error {
	temporary := d.temporary(name)
	err := writeNew(root, temporary, text)
	if err == nil {
		err = root.Rename(temporary, d.file(name))
	}
	if err != nil {
		return errors.Join(err, IgnoreMissing(root.Remove(temporary)))
	}
	return SyncDir(root, d.Path)
}

// writeNew creates a file with its content on disk. It removes an existing entry, such as a pipe or a
// symbolic link, and never writes to it.
func writeNew(root *os.Root, name string, text []byte) error {
	if err := IgnoreMissing(root.Remove(name)); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// makeDir creates a directory and its parents, and syncs the name of each new one.
func (d Dir) makeDir(root *os.Root, name string) error {
	err := root.Mkdir(name, d.Mode)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		if err := d.makeDir(root, path.Dir(name)); err != nil {
			return err
		}
		err = root.Mkdir(name, d.Mode)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return SyncDir(root, path.Dir(name))
}

// SyncDir makes the names in a directory durable.
func SyncDir(root *os.Root, name string) error {
	dir, err := openDir(root, name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

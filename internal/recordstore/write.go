package recordstore

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// Write replaces a record atomically and durably, or without a sync if it is volatile. It creates missing directories, except with MustExist.
func (d Dir) Write(name string, text []byte) error {
	if int64(len(text)) > d.Limit {
		return &TooLargeError{d.Limit}
	}
	return Within(d.Root, func(root *os.Root) error {
		err := d.replace(root, name, text)
		if d.MustExist || !errors.Is(err, fs.ErrNotExist) {
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
	err := d.writeNew(root, temporary, text)
	if err == nil {
		err = root.Rename(temporary, d.file(name))
	}
	if err != nil {
		return errors.Join(err, IgnoreMissing(root.Remove(temporary)))
	}
	return d.syncDir(root, d.Path)
}

// writeNew creates a file with its content, on disk unless the records are volatile. It removes an existing entry, such as a pipe or a
// symbolic link, and never writes to it.
func (d Dir) writeNew(root *os.Root, name string, text []byte) error {
	if err := IgnoreMissing(root.Remove(name)); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && !d.Volatile {
		err = syncFile(f)
	}
	return errors.Join(err, f.Close())
}

// makeDir creates a directory and its parents, and syncs their names, also of an existing one: another caller
// may not have done so yet.
func (d Dir) makeDir(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	parent := path.Dir(name)
	if err := d.makeDir(root, parent); err != nil {
		return err
	}
	if err := root.Mkdir(name, d.Mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.syncDir(root, parent)
}

func (d Dir) syncDir(root *os.Root, name string) error {
	if d.Volatile {
		return nil
	}
	return SyncDir(root, name)
}

// syncFile is replaced by tests.
var syncFile = (*os.File).Sync

// SyncDir makes the names in a directory durable.
func SyncDir(root *os.Root, name string) error {
	dir, err := openDir(root, name)
	if err != nil {
		return err
	}
	return errors.Join(syncFile(dir), dir.Close())
}

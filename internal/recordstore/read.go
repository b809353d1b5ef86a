package recordstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Read returns the content of a record. The error wraps fs.ErrNotExist for a missing record,
// [ErrNotRegular], or a [*TooLargeError].
func (d Dir) Read(name string) (text []byte, err error) {
	err = d.within(func(dir *os.Root) error {
		text, err = d.read(dir, name)
		return err
	})
	return text, err
}

// within runs work on the directory. The slash makes the open of a pipe fail, which would wait otherwise.
func (d Dir) within(work func(dir *os.Root) error) error {
	return Within(d.Root, func(root *os.Root) (err error) {
		dir, err := root.OpenRoot(d.Path + "/")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dir.Close()) }()
		return work(dir)
	})
}

func (d Dir) read(dir *os.Root, name string) (text []byte, err error) {
	f, err := openRegular(dir, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err = io.ReadAll(io.LimitReader(f, d.Limit+1)) // the size of the file may change
	if err == nil && int64(len(text)) > d.Limit {
		return nil, &TooLargeError{d.Limit}
	}
	return text, err
}

// readOnly does not wait for a writer, as opening a pipe would.
const readOnly = os.O_RDONLY | syscall.O_NONBLOCK

var errLink = fmt.Errorf("symbolic link: %w", ErrNotRegular)

// openRegular opens a regular file. An os.Root follows symbolic links below the root, also with
// O_NOFOLLOW, so that the open file is compared with the entry. The entry is inspected first, since the
// open of a device may have an effect. openRegular begins again if the entry was replaced in between.
func openRegular(dir *os.Root, name string) (*os.File, error) {
	for {
		entry, err := dir.Lstat(name)
		switch {
		case err != nil:
			return nil, err
		case entry.Mode().Type() == fs.ModeSymlink:
			return nil, &fs.PathError{Op: "open", Path: name, Err: errLink}
		case !entry.Mode().IsRegular():
			return nil, ErrNotRegular
		}
		f, err := dir.OpenFile(name, readOnly, 0)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil && isSameRegular(entry, info) {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// isSameRegular reports whether the entry was opened, and is a regular file. A pipe may reuse the inode
// number of a removed file.
func isSameRegular(entry, opened fs.FileInfo) bool {
	return os.SameFile(entry, opened) && opened.Mode().IsRegular()
}

// openDir opens a directory. It does not wait if another kind of entry has that name.
func openDir(root *os.Root, name string) (*os.File, error) { return root.OpenFile(name, readOnly, 0) }

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

// inside is the end of a path of a directory: the open of a pipe fails then, instead of waiting. With a slash
// alone older versions of os.Root would follow a symbolic link out of the root.
const inside = "/."

// within runs work on the directory.
func (d Dir) within(work func(dir *os.Root) error) error {
	return Within(d.Root, func(root *os.Root) (err error) {
		dir, err := root.OpenRoot(d.Path + inside)
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

// attempts limits the opens of an entry. More than a few replacements in a row come from no writer: the inode
// numbers of a file system may change with each call.
const attempts = 1000

// openRegular opens a regular file. It begins again if the entry was replaced in between.
func openRegular(dir *os.Root, name string) (*os.File, error) {
	for range attempts {
		f, isSame, err := tryOpenRegular(dir, name)
		if err != nil || isSame {
			return f, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("another file at each call")}
}

// tryOpenRegular opens a regular file. An os.Root follows symbolic links below the root, also with
// O_NOFOLLOW, so that the open file is compared with the entry; it is closed if it is another one. The entry
// is inspected first, since the open of a device may have an effect.
func tryOpenRegular(dir *os.Root, name string) (f *os.File, isSame bool, err error) {
	entry, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, false, err
	case entry.Mode().Type() == fs.ModeSymlink:
		return nil, false, &fs.PathError{Op: "open", Path: name, Err: errLink}
	case !entry.Mode().IsRegular():
		return nil, false, ErrNotRegular
	}
	f, err = dir.OpenFile(name, readOnly, 0)
	if err != nil {
		return nil, false, err
	}
	info, err := f.Stat()
	if err == nil && isSameRegular(entry, info) {
		return f, true, nil
	}
	return nil, false, errors.Join(err, f.Close())
}

// isSameRegular reports whether the entry was opened, and is a regular file. A pipe may reuse the inode
// number of a removed file.
func isSameRegular(entry, opened fs.FileInfo) bool {
	return os.SameFile(entry, opened) && opened.Mode().IsRegular()
}

// openDir opens a directory. It does not wait if another kind of entry has that name.
func openDir(root *os.Root, name string) (*os.File, error) { return root.OpenFile(name, readOnly, 0) }

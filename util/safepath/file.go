package safepath

import (
	"errors"
	"io/fs"
	"path"
)

// CreateFile creates an empty file at name, which is strictly below root and whose
// parents exist, with permissions perm (before umask), and reports whether it did.
// What is there already is left as it is and no error, unless it is a directory
// (EISDIR) or a symbolic link (ELOOP). On the way no symbolic link is followed.
func CreateFile(root, name string, perm fs.FileMode) (created bool, err error) {
	if _, err := split("create", root, name); err != nil {
		return false, err
	}
	created, err = createFile(path.Clean(name), perm)
	if err != nil {
		return created, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	return created, nil
}

// ErrNotEmpty is wrapped by the error of [RemoveEmptyFile] for all that it leaves.
var ErrNotEmpty = errors.New("not an empty regular file")

// RemoveEmptyFile removes the file at name, which must be absolute, if it is a regular
// one with nothing in it and no other name: what stands for a mount point. All else is
// left, with an error that wraps [ErrNotEmpty], or EBUSY if a file is mounted there.
// No symbolic link is followed, in the last component or before. A missing file is an
// error that wraps fs.ErrNotExist.
func RemoveEmptyFile(name string) error {
	if _, err := split("remove", "/", name); err != nil {
		return err
	}
	if err := removeEmptyFile(path.Clean(name)); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

package hostfile

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// Files are the files below a root.
type Files struct {
	Root string
	sync func(fd int) error // nil: fsync
}

// TemporarySuffix ends the name of a temporary file.
const TemporarySuffix = ".tmp"

var (
	// ErrNotRegular is wrapped by the error for an entry that is no regular file.
	ErrNotRegular = errors.New("not a regular file")
	// ErrNotLink is wrapped by the error for an entry that is no symbolic link.
	ErrNotLink = errors.New("not a symbolic link")

	errNotBelow = errors.New("the path is not below the root")
)

// check returns the directory and the last component of a path below the root.
func (f Files) check(op, name string) (dir, base string, err error) {
	if !strings.HasPrefix(name, f.Root+"/") || path.Clean(name) != name {
		return "", "", &fs.PathError{Op: op, Path: name, Err: errNotBelow}
	}
	return path.Dir(name), path.Base(name), nil
}

// isDirOf reports whether top is the directory of a file below the root, or one of its parents below
// the root.
func (f Files) isDirOf(top, name string) bool {
	return strings.HasPrefix(top, f.Root+"/") && path.Clean(top) == top && strings.HasPrefix(name, top+"/")
}

// ignoreMissing returns nil for a missing entry.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

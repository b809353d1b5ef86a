package hostfile

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Files are the files below a root.
type Files struct {
	Root string
	sync func(*os.File) error // nil: (*os.File).Sync
}

// TemporarySuffix ends the name of a temporary file.
const TemporarySuffix = ".tmp"

// Durability says when a write may return.
type Durability int

const (
	// Atomic: all readers find the new content. After a loss of power they find the old content or the new
	// one, whole.
	Atomic Durability = iota
	// Durable: the file and its name are on disk.
	Durable
)

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

// Remove removes a file, and its temporary one. Missing ones are no error. Another kind of entry stays,
// with an error.
func (f Files) Remove(name string) error {
	return errors.Join(f.RemoveOne(name), f.RemoveOne(name+TemporarySuffix))
}

// ignoreMissing returns nil for a missing entry.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

package recordstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Dir is a directory of records.
type Dir struct {
	Root string // an existing directory
	Path string // of the directory below Root, with slashes; ".": Root itself
	// Temporary is the path of temporary files below Path, such as "*.new" or "../new/*". The name of the
	// record replaces a "*".
	Temporary string
	Suffix    string      // of records; Each ignores other files
	Mode      fs.FileMode // of created directories
	Limit     int64       // the largest size of a record in bytes
	// MustExist makes Write and Remove fail without the directory, which Create has made: its file system may
	// be missing.
	MustExist bool
	// Volatile records may be lost, or unreadable, after a loss of power: nothing is synced. A kill of the process loses none.
	Volatile bool
}

// ErrNotRegular is wrapped by the error for an entry that is not a regular file, such as a symbolic link.
var ErrNotRegular = errors.New("not a regular file")

// A TooLargeError is the error for a record above the limit.
type TooLargeError struct{ Limit int64 }

// Error returns the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("a record must have at most %d bytes", e.Limit)
}

// IsUnfit reports whether an error of [Dir.Read] is about the entry, and lasts: [ErrNotRegular] or a
// [*TooLargeError].
func IsUnfit(err error) bool {
	var tooLarge *TooLargeError
	return errors.Is(err, ErrNotRegular) || errors.As(err, &tooLarge)
}

// Below returns the path of a directory below root with slashes, or an error if it is elsewhere.
func Below(root, dir string) (string, error) {
	rest, err := filepath.Rel(root, dir)
	if err != nil || !filepath.IsLocal(rest) {
		return "", fmt.Errorf("%s is not below %s", dir, root)
	}
	return filepath.ToSlash(rest), nil
}

// Within runs work on a directory tree, and cannot leave the tree.
func Within(dir string, work func(*os.Root) error) (err error) {
	root, err := os.OpenRoot(dir + inside)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return work(root)
}

// Create creates the directory durably. The names of its records are durable then, too: an earlier
// process may have been killed between the write of a record and its sync.
func (d Dir) Create() error {
	return Within(d.Root, func(root *os.Root) error {
		if err := d.makeDir(root, d.Path); err != nil {
			return err
		}
		return d.syncDir(root, d.Path)
	})
}

// Remove removes a record durably, and then its temporary file. Remove is idempotent: it syncs the directory
// also if the record is missing, as an earlier call may have been interrupted before its sync. A missing
// directory contains no record, except with MustExist; a missing root is an error.
func (d Dir) Remove(name string) error {
	return Within(d.Root, func(root *os.Root) error {
		if d.MustExist && d.Volatile { // no sync opens the directory
			if _, err := root.Stat(d.Path); err != nil {
				return err
			}
		}
		err := IgnoreMissing(root.Remove(d.file(name)))
		if err == nil {
			err = d.syncDir(root, d.Path)
		}
		if !d.MustExist {
			err = IgnoreMissing(err)
		}
		return errors.Join(err, IgnoreMissing(root.Remove(d.temporary(name))))
	})
}

// Each calls visit for each record in the order of their names, with its content or with the error of
// [Dir.Read]. The error for a missing directory wraps fs.ErrNotExist. visit may write and remove records.
func (d Dir) Each(visit func(name string, text []byte, err error)) error {
	return d.within(func(dir *os.Root) error {
		names, err := d.names(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			text, err := d.read(dir, name)
			if !errors.Is(err, fs.ErrNotExist) { // removed meanwhile
				visit(name, text, err)
			}
		}
		return nil
	})
}

func (d Dir) names(root *os.Root) ([]string, error) {
	dir, err := openDir(root, ".")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, d.Suffix) })
	slices.Sort(names)
	return names, errors.Join(err, dir.Close())
}

func (d Dir) file(name string) string { return path.Join(d.Path, name) }

func (d Dir) temporary(name string) string {
	return path.Join(d.Path, strings.Replace(d.Temporary, "*", name, 1))
}

// IgnoreMissing returns nil for a missing file.
func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

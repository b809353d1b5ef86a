package atomicdir

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// tries limits the tries of a step that other processes interfere with.
const tries = 16

var errInterfered = errors.New("another process changes the directory")

// createLinks creates the links of a view, and reports whether it had to change anything.
func (w *writer) createLinks(dir int, v *view) (changed bool, err error) {
	for name, to := range v.links {
		if w.fresh { // the name is most likely free
			if unix.Symlinkat(to, dir, name) == nil {
				changed = true
				continue
			}
		}
		if leadsTo(dir, name, to) {
			continue
		}
		changed = true
		if err := unix.Symlinkat(to, dir, name); err == nil {
			continue
		}
		if err := w.replaceByLink(dir, path.Join(v.path, name), to, newLink); err != nil {
			return true, err
		}
	}
	return changed, nil
}

// replaceByLink replaces an entry of an open directory by a symbolic link, atomically and for any
// type of entry. It creates the link under the name by first. The name is relative to the
// directory of the sets.
func (w *writer) replaceByLink(dir int, name, to, by string) error {
	base := path.Base(name)
	err := w.retryReplace(func() error {
		if unix.Symlinkat(to, w.root, by) != nil { // the name by may be in use
			if err := w.removeEntry(context.Background(), by); err != nil {
				return err
			}
			if err := unix.Symlinkat(to, w.root, by); err != nil {
				return err
			}
		}
		if err := w.rename(by, dir, base); err != nil {
			return err
		}
		if !leadsTo(dir, base, to) {
			return errInterfered
		}
		return nil
	})
	return w.wrapError("symlink", name, err)
}

// retryReplace calls once until no other process interferes, a bounded number of times.
func (w *writer) retryReplace(once func() error) (err error) {
	for range tries {
		if err = once(); err == nil {
			return nil
		}
	}
	return wrapInterference(err)
}

// wrapInterference wraps an error with errInterfered if another process can be its cause: a full
// disk, for example, is not one.
func wrapInterference(err error) error {
	if errors.Is(err, errInterfered) {
		return err
	}
	for _, theirs := range []error{unix.EEXIST, unix.ENOENT, unix.ENOTEMPTY, unix.ENOTDIR, unix.EISDIR, unix.EBUSY, unix.ELOOP, unix.EXDEV} {
		if errors.Is(err, theirs) {
			return fmt.Errorf("%w: %w", errInterfered, err)
		}
	}
	return err
}

// rename moves an entry of the directory of the sets to an open directory. An entry of
// another type at the target is exchanged with it, and removed by the next removeEntry.
func (w *writer) rename(from string, dir int, to string) error {
	err := unix.Renameat2(w.root, from, dir, to, 0)
	if slices.ContainsFunc([]error{unix.EISDIR, unix.ENOTDIR, unix.ENOTEMPTY, unix.EEXIST}, func(e error) bool { return errors.Is(err, e) }) {
		return unix.Renameat2(w.root, from, dir, to, unix.RENAME_EXCHANGE)
	}
	return err
}

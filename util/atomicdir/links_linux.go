package atomicdir

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// tries is how often somebody may come between two steps of ours.
const tries = 16

var errInterfered = errors.New("somebody else is changing the directory")

// link sees to it that all of the set can be seen, and reports whether it had to change
// anything.
func (w *writer) link() (changed bool, err error) {
	for top := range w.tops {
		if linkAt(w.root, top) == visible(top) {
			continue
		}
		changed = true
		if err := unix.Symlinkat(visible(top), w.root, top); err == nil {
			continue
		}
		if err := w.point(top, visible(top), newLink); err != nil {
			return true, err
		}
	}
	return changed, nil
}

// point makes a name a symbolic link at once, whatever it was before. It makes the link
// under another name first.
func (w *writer) point(name, to, by string) error {
	var err error
	for range tries {
		if err = w.clear(context.Background(), by); err != nil {
			continue
		}
		if err = unix.Symlinkat(to, w.root, by); err != nil {
			continue
		}
		if err = w.rename(by, name); err == nil && linkAt(w.root, name) == to {
			return nil
		}
	}
	return w.failed("symlink", name, interfered(err))
}

// interfered says who has done it, if somebody has: not a disk that is full.
func interfered(err error) error {
	if err == nil {
		return errInterfered
	}
	for _, theirs := range []error{unix.EEXIST, unix.ENOENT, unix.ENOTEMPTY, unix.ENOTDIR, unix.EISDIR, unix.EBUSY, unix.ELOOP, unix.EXDEV} {
		if errors.Is(err, theirs) {
			return fmt.Errorf("%w: %w", errInterfered, err)
		}
	}
	return err
}

// rename puts a link in the place of anything, also of a directory, which then has the
// link's name, for the next to clear.
func (w *writer) rename(from, to string) error {
	err := unix.Renameat2(w.root, from, w.root, to, 0)
	if slices.ContainsFunc([]error{unix.EISDIR, unix.ENOTEMPTY, unix.EEXIST}, func(e error) bool { return errors.Is(err, e) }) {
		return unix.Renameat2(w.root, from, w.root, to, unix.RENAME_EXCHANGE)
	}
	return err
}

package atomicdir

import (
	"context"
	"errors"
	"path"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// showView creates the entries of a view in its open directory and removes the links to files
// that the set no longer has. It reports whether it had to change anything; it syncs
// changes.
func (w *writer) showView(ctx context.Context, dir int, v *view) (changed bool, err error) {
	for name, below := range v.dirs {
		made, err := w.showBelow(ctx, dir, name, below)
		if changed = changed || made; err != nil {
			return changed, err
		}
	}
	for name := range v.files {
		made, err := w.makeFile(dir, path.Join(v.path, name))
		if changed = changed || made; err != nil {
			return changed, err
		}
	}
	linked, err := w.createLinks(dir, v)
	if changed = changed || linked; err != nil {
		return changed, err
	}
	if v.path != "" {
		if changed, err = w.unlinkStale(dir, v, changed); err != nil {
			return changed, err
		}
	}
	if !changed {
		return false, nil
	}
	return true, w.sync(dir, v.path)
}

// showBelow shows a view in its directory, which it creates if it is missing. It leaves a
// mount point as it is: the mount hides the directory's entries.
func (w *writer) showBelow(ctx context.Context, dir int, name string, v *view) (made bool, err error) {
	if typeAt(dir, name) != unix.S_IFDIR {
		return true, w.makeView(ctx, dir, v)
	}
	fd, err := w.enter(dir, name, toList)
	if errors.Is(err, unix.EXDEV) {
		return false, nil
	}
	if err != nil {
		return false, w.wrapError("open", v.path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = w.showView(ctx, fd, v)
	return false, err
}

// makeView creates the directory of a view with all its entries under another name and
// renames it: readers find either the files behind a link, as before, or all links.
func (w *writer) makeView(ctx context.Context, dir int, v *view) error {
	err := w.retryReplace(func() error {
		if err := w.removeEntry(ctx, newPoint); err != nil {
			return err
		}
		if err := w.buildView(w.root, newPoint, v); err != nil {
			return err
		}
		return w.rename(newPoint, dir, path.Base(v.path))
	})
	return w.wrapError("mkdir", v.path, err)
}

// buildView creates a new directory with the entries of a view.
func (w *writer) buildView(dir int, name string, v *view) error {
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return err
	}
	fd, err := w.enter(dir, name, toList)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	for base, below := range v.dirs {
		if err := w.buildView(fd, base, below); err != nil {
			return err
		}
	}
	for base := range v.files {
		if err := w.writeEmpty(fd, base); err != nil {
			return err
		}
	}
	for base, to := range v.links {
		if err := unix.Symlinkat(to, fd, base); err != nil {
			return err
		}
	}
	if err := setModeAndOwner(fd, w.o.dirMode(), File{}, w.o); err != nil {
		return err
	}
	return w.sync(fd, v.path)
}

// makeFile creates an empty file in an open directory unless a file exists at the name, and
// reports whether it did.
func (w *writer) makeFile(dir int, name string) (made bool, err error) {
	base := path.Base(name)
	if typeAt(dir, base) == unix.S_IFREG {
		return false, nil
	}
	err = w.retryReplace(func() error {
		if err := w.removeEntry(context.Background(), newPoint); err != nil {
			return err
		}
		if err := w.writeEmpty(w.root, newPoint); err != nil {
			return err
		}
		return w.rename(newPoint, dir, base)
	})
	return true, w.wrapError("create", name, err)
}

func (w *writer) writeEmpty(dir int, name string) error {
	err := w.writeFile(dir, name, File{})
	return w.syncFiles(err)
}

// unlinkStale removes links to files that the set no longer has from a view below the
// directory of the sets. Other entries stay.
func (w *writer) unlinkStale(dir int, v *view, changed bool) (bool, error) {
	names, err := w.readNames(dir, func(name string) bool {
		return !v.has(name) && leadsTo(dir, name, v.target(name))
	})
	for _, name := range names {
		err = errors.Join(err, unix.Unlinkat(dir, name, 0))
	}
	return changed || len(names) > 0, w.wrapError("unlink", v.path, err)
}

// readNames reads an open directory and returns the wanted names, at most mostLeft.
func (w *writer) readNames(dir int, wanted func(string) bool) (all []string, err error) {
	fd, err := beneath.OpenSelf(dir, toList)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	var list beneath.Listing
	defer list.Free()
	for len(all) < mostLeft {
		more, err := list.Refill(fd)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		for e, ok := list.Take(); ok; e, ok = list.Take() {
			if wanted(e.Name) {
				all = append(all, e.Name)
			}
		}
	}
	return all, nil
}

// typeAt returns the type of an entry of an open directory, or 0 if there is no entry.
func typeAt(dir int, name string) uint32 {
	var s unix.Statx_t
	if err := unix.Statx(dir, name, beneath.Quiet, unix.STATX_TYPE, &s); err != nil {
		return 0
	}
	return uint32(s.Mode) & unix.S_IFMT
}

package atomicdir

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/scrub"
	"golang.org/x/sys/unix"
)

const (
	// mostLeft limits the leftovers that one Write removes; the next Write continues.
	mostLeft = 4096
)

// removeLeftovers removes old sets, temporary names, and links to files that the current
// set does not have.
func (w *writer) removeLeftovers(ctx context.Context, current string) error {
	left := &LeftoverError{Dir: w.dir}
	names, err := w.leftovers(current)
	if err != nil {
		return w.wrapError("read", "", err)
	}
	for _, name := range names {
		if err := w.removeEntry(ctx, name); err != nil && len(left.Names) < 8 {
			left.Names = append(left.Names, name)
			left.Err = errors.Join(left.Err, err)
		}
	}
	if left.Err != nil {
		return left
	}
	return nil
}

// leftovers returns the names of leftovers, at most mostLeft.
func (w *writer) leftovers(current string) ([]string, error) {
	return w.readNames(w.root, func(name string) bool { return name != current && w.isLeft(name) })
}

func (w *writer) isLeft(name string) bool {
	switch {
	case name == newDataLink, name == newLink, name == newPoint, setName.MatchString(name):
		return true
	case strings.HasPrefix(name, ".."), w.seen.has(name):
		return false
	}
	return leadsTo(w.root, name, w.seen.target(name))
}

// removeEntry removes an entry at the top of the directory. A missing entry is no error.
func (w *writer) removeEntry(ctx context.Context, name string) error {
	err := unix.Unlinkat(w.root, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR):
		return err
	}
	if err := w.emptyDirectory(ctx, name); err != nil {
		return err
	}
	if err := unix.Unlinkat(w.root, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// emptyDirectory deletes the content of a directory, after it has verified that scrub.Open has opened
// the same directory.
func (w *writer) emptyDirectory(ctx context.Context, name string) error {
	fd, err := w.enter(w.root, name, toList)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if unlinkFiles(ctx, fd) {
		return nil
	}
	at, err := beneath.Identify(fd)
	if err != nil {
		return err
	}
	r, err := scrub.Open(context.Background(), path.Join(w.dir, name))
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if id := r.Identity(); id != (scrub.Identity{Device: at.Device, Inode: at.Inode, Mount: at.Mount}) {
		return fmt.Errorf("%w: %s was replaced", errInterfered, input.Shorten(path.Join(w.dir, name)))
	}
	if _, err := r.Empty(ctx, scrub.Options{Workers: 1}); err != nil {
		return err
	}
	// scrub keeps lost+found for file systems. This directory is not the root of one.
	if err := unix.Unlinkat(fd, "lost+found", unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// unlinkFiles unlinks the entries of an open directory, and reports whether the directory is
// empty: most sets have no directories and need no scrub. unlink(2) removes neither a
// directory nor a mount point.
func unlinkFiles(ctx context.Context, fd int) bool {
	var list beneath.Listing
	defer list.Free()
	for {
		more, err := list.Refill(fd)
		if err != nil || !more {
			return err == nil
		}
		for e, ok := list.Take(); ok; e, ok = list.Take() {
			if ctx.Err() != nil || beneath.BadName(e.Name) || unix.Unlinkat(fd, e.Name, 0) != nil {
				return false
			}
		}
	}
}

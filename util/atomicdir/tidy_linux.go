package atomicdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/scrub"
	"golang.org/x/sys/unix"
)

const (
	// atOnce is how many names are read at a time.
	atOnce = 256
	// mostLeft is how many leftovers a Write removes, and the next one goes on.
	mostLeft = 4096
)

// tidy removes what is neither the current set nor what makes it visible.
func (w *writer) tidy(ctx context.Context, current string) error {
	left := &LeftoverError{Dir: w.dir}
	names, err := w.leftovers(current)
	if err != nil {
		return w.failed("read", "", err)
	}
	for _, name := range names {
		if err := w.clear(ctx, name); err != nil && len(left.Names) < 8 {
			left.Names = append(left.Names, name)
			left.Err = errors.Join(left.Err, err)
		}
	}
	if left.Err != nil {
		return left
	}
	return nil
}

// leftovers reads the directory, and stops when it has enough.
func (w *writer) leftovers(current string) ([]string, error) {
	fd, err := w.enter(w.root, "", toList)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), w.dir)
	defer func() { _ = dir.Close() }()
	var all []string
	for len(all) < mostLeft {
		names, err := dir.Readdirnames(atOnce)
		for _, name := range names {
			if name != current && w.isLeft(name) {
				all = append(all, name)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (w *writer) isLeft(name string) bool {
	switch {
	case name == newDataLink, name == newLink, setName.MatchString(name):
		return true
	case strings.HasPrefix(name, ".."), w.tops[name]:
		return false
	}
	return linkAt(w.root, name) == visible(name)
}

// clear removes whatever has a name, right in the directory. Nothing is no error.
func (w *writer) clear(ctx context.Context, name string) error {
	err := unix.Unlinkat(w.root, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR):
		return err
	}
	if err := w.empty(ctx, name); err != nil {
		return err
	}
	if err := unix.Unlinkat(w.root, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// empty has a directory scrubbed once it is clear that it is the one right in here.
func (w *writer) empty(ctx context.Context, name string) error {
	fd, err := w.enter(w.root, name, toList)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	at, err := beneath.Identify(fd)
	if err != nil {
		return err
	}
	r, err := scrub.Open(path.Join(w.dir, name))
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if id := r.Identity(); id != (scrub.Identity{Device: at.Device, Inode: at.Inode, Mount: at.Mount}) {
		return fmt.Errorf("%w: %s is another directory by now", errInterfered, shorten(path.Join(w.dir, name)))
	}
	if _, err := r.Empty(ctx, scrub.Options{Workers: 1}); err != nil {
		return err
	}
	// A file system's own stays when it is scrubbed. This one is no file system.
	if err := unix.Unlinkat(fd, "lost+found", unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

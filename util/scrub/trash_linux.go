package scrub

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// moveAside moves all entries that do not stay into a new directory of the trash, in which
// their names are free.
func moveAside(ctx context.Context, r *Root, o Options, t *tally) error {
	s := newSweep(ctx, r, o, t)
	s.left.Root = r.path
	top, err := r.openForListing(ctx)
	if err != nil {
		return err
	}
	defer top.Close()
	trash, err := r.makeDir(top.FD, o.Trash)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(trash) }()
	batch, err := r.makeBatch(ctx, trash)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(batch) }()
	return s.moveAll(top, batch, o)
}

// makeDir opens a directory, and creates it if it does not exist.
func (r *Root) makeDir(dir int, name string) (int, error) {
	if err := unix.Mkdirat(dir, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	fd, at, err := openIn(dir, name, r.id)
	if err == nil && at.Device != r.id.Device { // rename(2) does not enter a subvolume
		_ = unix.Close(fd)
		return -1, fmt.Errorf("%s: a subvolume in the place of the trash, which DeleteTrash deletes: %w", input.Quote(name), unix.EXDEV)
	}
	return fd, err
}

// makeBatch creates and opens a directory under a free name: a number.
func (r *Root) makeBatch(ctx context.Context, trash int) (int, error) {
	for n := 0; ctx.Err() == nil; n++ {
		name := strconv.Itoa(n)
		err := unix.Mkdirat(trash, name, 0o700)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return -1, err
		}
		fd, _, err := openIn(trash, name, r.id)
		return fd, err
	}
	return -1, ctxend.Error(ctx)
}

// moveAll makes passes until one moves nothing.
func (s *sweep) moveAll(top *frame, batch int, o Options) error {
	for pass := 1; ; pass++ {
		before := s.tally.entries()
		s.left = UnremovableError{beneath.Failures{Root: s.root.path}}
		if err := s.moveOnce(top, batch, o); err != nil {
			return err
		}
		if s.tally.entries() > before && pass < maxPasses {
			if err := top.Rewind(); err != nil {
				return err
			}
			continue
		}
		if s.left.Count > 0 {
			return &s.left
		}
		return verify(s.ctx, s.root, o.fateWhenMoving)
	}
}

func (s *sweep) moveOnce(top *frame, batch int, o Options) error {
	return eachEntry(s.ctx, top, func(e beneath.Entry) error {
		switch o.fateWhenMoving(e.Name) {
		case deleted:
			return s.move(top, batch, e)
		case emptied:
			return s.moveContent(top, batch, e)
		}
		return nil
	})
}

// moveContent moves the entries of lost+found. A subvolume of this name, which no file system
// needs, is moved itself, since rename(2) does not leave a subvolume.
func (s *sweep) moveContent(top *frame, batch int, e beneath.Entry) error {
	fd, at, err := openIn(top.FD, e.Name, s.root.id)
	switch {
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		return s.move(top, batch, e)
	case errors.Is(err, unix.ENOENT), isForbidden(err) && belongsToRoot(top.FD, e.Name):
		return nil
	case err != nil:
		s.recordFailure(top, e.Name, err)
		return nil
	}
	sub := &frame{Place: at, Above: top, Name: e.Name, FD: fd}
	defer sub.Close()
	if at.Device != top.Device {
		return s.move(top, batch, e)
	}
	into := -1
	defer func() { _ = unix.Close(into) }()
	return eachEntry(s.ctx, sub, func(in beneath.Entry) error {
		if into < 0 {
			if into, err = s.root.makeBatch(s.ctx, batch); err != nil {
				return err
			}
		}
		return s.move(sub, into, in)
	})
}

// move moves an entry into the batch, at the limited rate, or records its failure.
func (s *sweep) move(dir *frame, batch int, e beneath.Entry) error {
	if err := s.limit.wait(s.ctx); err != nil {
		return err
	}
	if !s.GoOn() {
		return s.Err()
	}
	err := unix.Renameat2(dir.FD, e.Name, batch, e.Name, 0)
	if errors.Is(err, unix.EROFS) && s.makeEntryWritable(dir.FD, e.Name) == nil { // a read-only subvolume
		err = unix.Renameat2(dir.FD, e.Name, batch, e.Name, 0)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
	case err != nil:
		s.recordFailure(dir, e.Name, err)
	case e.Kind == unix.DT_DIR:
		s.tally.directories.Add(1)
	default:
		s.tally.files.Add(1)
	}
	return nil
}

package scrub

import (
	"context"
	"errors"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

func check(ctx context.Context, r *Root, o Options, _ *tally) error {
	return verify(ctx, r, o.fate)
}

// verify returns a *NotEmptyError if the root has entries that should have been deleted.
func verify(ctx context.Context, r *Root, fate func(string) fate) error {
	left := &NotEmptyError{Root: r.path}
	top, err := r.openForListing(ctx)
	if err != nil {
		return err
	}
	defer top.Close()
	err = eachEntry(ctx, top, func(e beneath.Entry) error {
		switch fate(e.Name) {
		case deleted:
			left.add(e.Name)
		case emptied:
			return left.addBelow(ctx, r, top, e.Name)
		}
		return nil
	})
	if err == nil && left.Count > 0 {
		return left
	}
	return err
}

// addBelow adds the entries of a directory that must be empty, such as lost+found.
func (e *NotEmptyError) addBelow(ctx context.Context, r *Root, top *frame, name string) error {
	fd, at, err := openIn(top.FD, name, r.id)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || isForbidden(err) && belongsToRoot(top.FD, name) {
			return nil
		}
		e.add(name)
		return nil
	}
	sub := &frame{Place: at, FD: fd}
	defer sub.Close()
	return eachEntry(ctx, sub, func(in beneath.Entry) error {
		e.add(name + "/" + in.Name)
		return nil
	})
}

func isForbidden(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

func (e *NotEmptyError) add(name string) {
	e.Count++
	if len(e.Names) < beneath.MaxEntries {
		e.Names = append(e.Names, name)
	}
}

// eachEntry calls do for every entry of a directory.
func eachEntry(ctx context.Context, f *frame, do func(beneath.Entry) error) error {
	for {
		if ctx.Err() != nil {
			return ctxend.Error(ctx)
		}
		more, err := f.Refill()
		if err != nil || !more {
			return err
		}
		for e, ok := f.Take(); ok; e, ok = f.Take() {
			if err := do(e); err != nil {
				return err
			}
		}
	}
}

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

// verify looks whether there is nothing but what stays.
func verify(ctx context.Context, r *Root, fate func(string) fate) error {
	left := &NotEmptyError{Root: r.path}
	top, err := r.list(ctx)
	if err != nil {
		return err
	}
	defer top.Close()
	err = each(ctx, top, func(e beneath.Entry) error {
		switch fate(e.Name) {
		case goes:
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

// addBelow looks into what must be an empty directory.
func (e *NotEmptyError) addBelow(ctx context.Context, r *Root, top *frame, name string) error {
	fd, at, err := openIn(top.FD, name, r.id)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || isForbidden(err) && isRoots(top.FD, name) {
			return nil
		}
		e.add(name)
		return nil
	}
	sub := &frame{Place: at, FD: fd}
	defer sub.Close()
	return each(ctx, sub, func(in beneath.Entry) error {
		e.add(name + "/" + in.Name)
		return nil
	})
}

func isForbidden(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

func (e *NotEmptyError) add(name string) {
	e.Count++
	if len(e.Names) < beneath.Named {
		e.Names = append(e.Names, name)
	}
}

// each reads a directory to its end.
func each(ctx context.Context, f *frame, do func(beneath.Entry) error) error {
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

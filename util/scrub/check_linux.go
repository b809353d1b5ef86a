package scrub

import (
	"context"
	"errors"

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
	defer top.close()
	err = each(ctx, top, func(e entry) error {
		switch fate(e.name) {
		case goes:
			left.add(e.name)
		case emptied:
			return left.addBelow(ctx, r, top, e.name)
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
	fd, at, err := openIn(top.fd, name, r.id)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || isForbidden(err) && isRoots(top.fd, name) {
			return nil
		}
		e.add(name)
		return nil
	}
	sub := &frame{place: at, fd: fd}
	defer sub.close()
	return each(ctx, sub, func(in entry) error {
		e.add(name + "/" + in.name)
		return nil
	})
}

func isForbidden(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

func (e *NotEmptyError) add(name string) {
	e.Count++
	if len(e.Names) < named {
		e.Names = append(e.Names, name)
	}
}

// each reads a directory to its end.
func each(ctx context.Context, f *frame, do func(entry) error) error {
	for {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		more, err := f.unread.refill(f.fd)
		if err != nil || !more {
			return err
		}
		for e, ok := f.unread.take(); ok; e, ok = f.unread.take() {
			if err := do(e); err != nil {
				return err
			}
		}
	}
}

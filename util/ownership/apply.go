package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Apply gives the directory at dir, and all that is in it, to the user and the group
// that o names. The path is absolute, without ".." and without a symbolic link
// anywhere on the way; the root of the file system hierarchy is refused under
// whatever name. It may be called again after any end, also that of the process, and
// goes on. Calls for the same directory wait for each other. It returns what it has
// done, also along with an error:
//
//   - an *UnchangedError if something could not be changed (all else has been, but
//     for the directory itself),
//   - one that wraps ctx.Err() and the cause if ctx ended before it was done, and
//     [ErrBusy], too, if that was before it began,
//   - an *InputError, before anything was changed,
//   - what the system said when the directory itself could not be opened, read or
//     changed; fs.ErrPermission and such. On a file system that is read-only: EROFS at
//     the first change.
//
// When ctx ends it returns at once, or nearly so; a worker whose file system does
// not answer finishes the one system call it is in, and nothing more.
func Apply(ctx context.Context, dir string, o Options) (Counts, error) {
	if reason := badDirectory(dir); reason != "" {
		return Counts{}, &InputError{Field: "dir", Value: dir, Reason: reason}
	}
	if err := o.check(); err != nil {
		return Counts{}, err
	}
	if o.User == nil && o.Group == nil {
		return Counts{}, nil
	}
	dir = path.Clean(dir)
	var t tally
	err := o.run(ctx, dir, &t)
	counts := t.counts()
	if o.Progress != nil {
		o.Progress(counts)
	}
	return counts, wrap(dir, err)
}

var errIsTop = errors.New("the root of the file system hierarchy")

func badDirectory(name string) string {
	switch {
	case !path.IsAbs(name):
		return "not absolute"
	case strings.ContainsRune(name, 0):
		return "has a NUL"
	case slices.Contains(strings.Split(name, "/"), ".."):
		return `has ".."`
	case path.Clean(name) == "/":
		return errIsTop.Error()
	}
	return ""
}

// wrap says which directory an error is about, if the error itself does not.
func wrap(dir string, err error) error {
	var unchanged *UnchangedError
	switch {
	case err == nil || errors.As(err, &unchanged):
		return err
	case errors.Is(err, errIsTop):
		return &InputError{Field: "dir", Value: dir, Reason: errIsTop.Error()}
	}
	return &fs.PathError{Op: "ownership", Path: dir, Err: err}
}

// run lets the work go on without its caller, if the caller cannot wait for its end.
func (o Options) run(ctx context.Context, dir string, t *tally) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- apply(ctx, dir, o, t) }()
	every := o.Every
	if every == 0 {
		every = time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			if o.Progress != nil {
				o.Progress(t.counts())
			}
		case <-ctx.Done():
			return awaitEnd(ctx, done)
		}
	}
}

// awaitEnd gives workers that are not stuck the time to end.
func awaitEnd(ctx context.Context, done <-chan error) error {
	const grace = 100 * time.Millisecond
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return ended(ctx)
	}
}

// ended is both the context's error and its cause.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// A tally is Counts that workers add to.
type tally struct {
	seen, changed, mounts atomic.Int64
}

func (t *tally) counts() Counts {
	return Counts{Seen: t.seen.Load(), Changed: t.changed.Load(), Mounts: t.mounts.Load()}
}

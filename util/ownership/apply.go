package ownership

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
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
	if reason := beneath.BadRoot(dir); reason != "" {
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

// wrap says which directory an error is about, if the error itself does not.
func wrap(dir string, err error) error {
	var unchanged *UnchangedError
	switch {
	case err == nil || errors.As(err, &unchanged):
		return err
	case errors.Is(err, beneath.ErrIsTop):
		return &InputError{Field: "dir", Value: dir, Reason: beneath.ErrIsTop.Error()}
	}
	return &fs.PathError{Op: "ownership", Path: dir, Err: err}
}

// run lets the work go on without its caller, if the caller cannot wait for its end.
func (o Options) run(ctx context.Context, dir string, t *tally) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- apply(ctx, dir, o, t) }()
	return beneath.Await(ctx, done, o.Every, func() {
		if o.Progress != nil {
			o.Progress(t.counts())
		}
	})
}

// A tally is Counts that workers add to.
type tally struct {
	seen, changed, mounts atomic.Int64
}

func (t *tally) counts() Counts {
	return Counts{Seen: t.seen.Load(), Changed: t.changed.Load(), Mounts: t.mounts.Load()}
}

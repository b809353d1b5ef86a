package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/progress"
)

// Apply gives the directory at dir and everything in it to the user and the group in o.
// The path is absolute, without ".." and without symbolic links; the root of the file
// system hierarchy is refused under any name. Apply may be called again after any end,
// also after a crash of the process, and continues. Calls for the same directory wait for
// each other. Apply returns the counts of its work, also along with an error:
//
//   - an *UnchangedError if entries could not be changed (all others have been, but
//     not the directory itself),
//   - an error that wraps ctx.Err() and the cause if ctx ended before the end of the work,
//     and also [ErrBusy] if the work had not begun,
//   - an *InputError, before anything was changed,
//   - the system's error if the directory itself could not be opened, read or
//     changed, such as fs.ErrPermission. On a read-only file system: [ErrReadOnly] at the
//     first change.
//
// Receivers in ctx, see [progress.With], get the number of entries checked so far. When ctx ends Apply returns soon; a worker on a file system that does not answer finishes
// its current system call and does nothing more.
func Apply(ctx context.Context, dir string, o Options) (Counts, error) {
	if reason := beneath.BadRoot(dir); reason != "" {
		return Counts{}, operation.Refuse("dir", dir, reason)
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
	return t.counts(), wrap(dir, err)
}

// wrap adds the directory to an error that does not name it.
func wrap(dir string, err error) error {
	var unchanged *UnchangedError
	switch {
	case err == nil || errors.As(err, &unchanged):
		return err
	case errors.Is(err, beneath.ErrIsTop):
		return operation.Refuse("dir", dir, beneath.ErrIsTop.Error())
	}
	return &fs.PathError{Op: "ownership", Path: dir, Err: beneath.NamePrivilege(err, beneath.ToChownAndChange)}
}

// opening locks directories while they are opened: a file system that does not answer
// costs one stuck call for each directory.
var opening keylock.Map

// run runs apply in a goroutine of its own, which continues if ctx ends first.
func (o Options) run(ctx context.Context, dir string, t *tally) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	opened, err := opening.Lock(ctx, dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, ctxend.Error(ctx))
	}
	step := progress.Step{
		Name: progress.Ownership, Object: dir, Unit: progress.Entries,
		Count: func() (done, total int64) { return t.seen.Load(), 0 },
	}
	done := make(chan error, 1)
	go func() {
		defer progress.Begin(ctx, step)()
		done <- apply(ctx, dir, o, t, opened)
	}()
	return beneath.Await(ctx, done)
}

// A tally holds the Counts while workers add to them.
type tally struct {
	seen, changed, mounts atomic.Int64
}

func (t *tally) counts() Counts {
	return Counts{Seen: t.seen.Load(), Changed: t.changed.Load(), Mounts: t.mounts.Load()}
}

package scrub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/progress"
)

// An Identity identifies a directory.
type Identity struct {
	Device, Inode uint64
	Mount         uint64 // the mount's ID in the mount table
}

// A Root is a directory whose content may be deleted. It holds the directory open, so its
// file system cannot be unmounted before Close. Its methods may be called at any time from
// any goroutine; one call works at a time, and others wait.
type Root struct {
	path string
	id   Identity
	turn chan struct{} // full while a call works

	mu     sync.Mutex // locked last
	dir    int        // a descriptor, -1 after it is closed
	closed bool
}

// Open opens the directory at name, an absolute path without symbolic links. The root of
// the file system hierarchy is refused under any name, as is a name with "..": an
// *InputError. Open does not wait for the file system mounted at name. If ctx ends before
// the file systems of the parents have answered, the error wraps ctx.Err() and the cause.
func Open(ctx context.Context, name string) (_ *Root, err error) {
	defer brief.Shorten(&err)
	if reason := beneath.BadRoot(name); reason != "" {
		return nil, operation.Refuse("path", name, reason)
	}
	name = path.Clean(name)
	r, _, err := keylock.Await(ctx, opening.Key(name), ctxend.Kernel, func() (*Root, error) { return openAt(name) }, closeLate)
	if errors.Is(err, beneath.ErrIsTop) {
		return nil, operation.Refuse("path", name, err.Error())
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: beneath.NamePrivilege(err, beneath.ToChange)}
	}
	return r, nil
}

// opening locks roots by path while they are opened.
var opening keylock.Map

func openAt(name string) (*Root, error) {
	dir, id, err := openRoot(name)
	if err != nil {
		return nil, err
	}
	return &Root{path: name, id: id, dir: dir, turn: make(chan struct{}, 1)}, nil
}

func closeLate(r *Root, err error) {
	if err == nil {
		_ = r.Close()
	}
}

// Identity returns the identity of the root.
func (r *Root) Identity() Identity { return r.id }

// Close releases the directory. If a call still works, perhaps stuck after the end of its
// context, that call closes the descriptor at its end. Close waits for no file system.
// Closing twice is no error.
func (r *Root) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
		return r.closeDir()
	default:
		return nil
	}
}

func (r *Root) closeDir() error {
	dir := r.dir
	r.dir = -1
	return closeDir(dir)
}

// Empty deletes the content of the root, except for Keep and lost+found. It may be called
// again after any end, also after a crash of the process, and continues. It returns the
// counts of its work, also along with an error:
//
//   - an *UnremovableError if entries could not be removed (all others have been),
//   - a *NotEmptyError if other processes have created entries all the time,
//   - an error that wraps ctx.Err() and the cause if ctx ended before the end of the work,
//     and also [ErrBusy] if the work had not begun,
//   - an *InputError, fs.ErrClosed after Close, or the system's error if the root itself
//     could not be read.
//
// Receivers in ctx, see [progress.With], get the number of entries removed so far. When ctx ends Empty returns soon; a worker on a file system that does not answer finishes
// its current system call and does nothing more.
func (r *Root) Empty(ctx context.Context, o Options) (Counts, error) {
	if o.Trash != "" {
		return r.runRemoval(ctx, o, moveAside)
	}
	return r.runRemoval(ctx, o, deleteAll)
}

// DeleteTrash deletes the directory o.Trash, into which Empty has moved entries, and
// nothing else. It may be called at any time. Its results are those of Empty.
func (r *Root) DeleteTrash(ctx context.Context, o Options) (Counts, error) {
	if o.Trash == "" {
		return Counts{}, operation.Refuse("Trash", "", "empty")
	}
	return r.runRemoval(ctx, o, deleteTrash)
}

// Check reads the root anew and returns a *NotEmptyError unless it is empty. Entries in
// Keep may remain, and a lost+found that is empty, or that belongs to root and is not
// readable by the caller. Check changes nothing. o.Trash is an entry like any other.
// Other errors are those of Empty.
func (r *Root) Check(ctx context.Context, o Options) error {
	_, err := r.runJob(ctx, Options{Keep: o.Keep}, check)
	return err
}

// A job is the work of one call on a root. It checks ctx before each system call that may
// wait for a file system.
type job func(ctx context.Context, r *Root, o Options, t *tally) error

// runRemoval runs a job that removes or moves entries, and reports its progress.
func (r *Root) runRemoval(ctx context.Context, o Options, work job) (Counts, error) {
	return r.runJob(ctx, o, func(ctx context.Context, r *Root, o Options, t *tally) error {
		defer progress.Begin(ctx, progress.Step{
			Name: progress.Scrub, Object: r.path, Unit: progress.Entries,
			Count: func() (done, total int64) { return t.entries(), 0 },
		})()
		return work(ctx, r, o, t)
	})
}

func (r *Root) runJob(ctx context.Context, o Options, work job) (Counts, error) {
	if err := o.check(); err != nil {
		return Counts{}, err
	}
	if err := r.begin(ctx); err != nil {
		return Counts{}, &fs.PathError{Op: "scrub", Path: r.path, Err: err}
	}
	var t tally
	done := make(chan error, 1)
	go func() {
		err := work(ctx, r, o, &t)
		r.end()
		done <- err
	}()
	err := beneath.Await(ctx, done)
	return t.counts(), r.wrap(err)
}

// begin acquires the root for one call. It waits until no other call works on the root; the
// error wraps [ErrBusy] if ctx ends first.
func (r *Root) begin(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusy, ctxend.Error(ctx))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		<-r.turn
		return fs.ErrClosed
	}
	return nil
}

func (r *Root) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed && r.dir >= 0 {
		_ = r.closeDir()
	}
	<-r.turn
}

// wrap adds the root to an error that does not name it.
func (r *Root) wrap(err error) error {
	var unremovable *UnremovableError
	var notEmpty *NotEmptyError
	if err == nil || errors.As(err, &unremovable) || errors.As(err, &notEmpty) {
		return err
	}
	return &fs.PathError{Op: "scrub", Path: r.path, Err: beneath.NamePrivilege(err, beneath.ToChange)}
}

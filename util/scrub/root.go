package scrub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
)

// An Identity is what a directory is known by.
type Identity struct {
	Device, Inode uint64
	Mount         uint64 // its number in the mount table
}

// A Root is a directory whose content may be deleted. It is held open, so that what
// is mounted there cannot be unmounted before Close. Its methods may be called
// at any time from any goroutine; one at a time works, and others wait.
type Root struct {
	path string
	id   Identity
	turn chan struct{} // full while somebody works

	mu     sync.Mutex // taken last
	dir    int        // a descriptor, -1 once it is closed
	closed bool
}

// Open opens the directory at name, which is absolute and has no symbolic link
// anywhere on the way. The root of the file system hierarchy is refused under
// whatever name, as is a name with "..": an *InputError. It does not wait for the
// file system that is mounted there.
func Open(name string) (*Root, error) {
	if reason := beneath.BadRoot(name); reason != "" {
		return nil, &InputError{Field: "path", Value: name, Reason: reason}
	}
	name = path.Clean(name)
	dir, id, err := openRoot(name)
	if errors.Is(err, beneath.ErrIsTop) {
		return nil, &InputError{Field: "path", Value: name, Reason: err.Error()}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &Root{path: name, id: id, dir: dir, turn: make(chan struct{}, 1)}, nil
}

// Identity returns what the root is known by.
func (r *Root) Identity() Identity { return r.id }

// Close lets go of the directory. If a call is still at work, or what it left behind
// when its context ended is, that closes it at its end. Closing twice is no
// error.
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

// Empty deletes all that is in the root, except for what is to stay. It may be
// called again after any end, also that of the process, and goes on. It returns what
// it has removed, also along with an error:
//
//   - an *UnremovableError if something could not be removed (all else has been),
//   - a *NotEmptyError if others have been creating all the time,
//   - one that wraps ctx.Err() and the cause if ctx ended before it was done, and
//     [ErrBusy], too, if that was before it began,
//   - an *InputError, fs.ErrClosed after Close, or what the system said when the root
//     itself could not be read.
//
// When ctx ends it returns at once, or nearly so; a worker whose file system does
// not answer finishes the one system call it is in, and nothing more.
func (r *Root) Empty(ctx context.Context, o Options) (Counts, error) {
	if o.Trash != "" {
		return r.do(ctx, o, moveAside)
	}
	return r.do(ctx, o, deleteAll)
}

// DeleteTrash deletes the directory that Empty has moved things into, named by
// o.Trash, and nothing else. It may be called at any time, and is otherwise like
// Empty.
func (r *Root) DeleteTrash(ctx context.Context, o Options) (Counts, error) {
	if o.Trash == "" {
		return Counts{}, &InputError{Field: "Trash", Reason: "empty"}
	}
	return r.do(ctx, o, deleteTrash)
}

// Check reads the root anew and returns a *NotEmptyError if it is not empty, except
// for what is to stay: Keep, and an empty lost+found, or one that is root's and
// must not be read. It changes nothing. Trash must be empty or gone like all else,
// unless it is in Keep. It returns other errors as Empty does.
func (r *Root) Check(ctx context.Context, o Options) error {
	_, err := r.do(ctx, Options{Keep: o.Keep}, check)
	return err
}

// A job is what somebody does with a root whose turn it is. It looks at ctx before each
// system call that may wait for a file system.
type job func(ctx context.Context, r *Root, o Options, t *tally) error

func (r *Root) do(ctx context.Context, o Options, work job) (Counts, error) {
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
	err := beneath.Await(ctx, done, o.Every, func() {
		if o.Progress != nil {
			o.Progress(t.counts())
		}
	})
	counts := t.counts()
	if o.Progress != nil {
		o.Progress(counts)
	}
	return counts, r.wrap(err)
}

// begin waits for the turn.
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

// wrap says which root an error is about, if the error itself does not.
func (r *Root) wrap(err error) error {
	var unremovable *UnremovableError
	var notEmpty *NotEmptyError
	if err == nil || errors.As(err, &unremovable) || errors.As(err, &notEmpty) {
		return err
	}
	return &fs.PathError{Op: "scrub", Path: r.path, Err: err}
}

package scrub

import (
	"context"
	"errors"
	"sync"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// unlinkat is the only system call that deletes. Tests replace it.
var unlinkat = unix.Unlinkat

const (
	// maxPasses limits the passes over a directory, and over the root. Further passes
	// remove entries that were created meanwhile, or that the file system skipped while
	// entries before them were removed.
	maxPasses = 64
	// idlePasses limits the passes that remove nothing.
	idlePasses = 3
)

// A sweep is the state of one call, shared by its workers.
type sweep struct {
	*beneath.Gate
	ctx   context.Context
	root  *Root
	fate  func(name string) fate
	limit *limiter
	tally *tally
	spare chan struct{} // holds a token for each additional worker

	mu   sync.Mutex
	left UnremovableError
	lost bool // a worker could not return to the directory above: another pass is needed
}

func deleteAll(ctx context.Context, r *Root, o Options, t *tally) error {
	return newSweep(ctx, r, o, t).emptyRoot(o.fate)
}

func deleteTrash(ctx context.Context, r *Root, o Options, t *tally) error {
	return newSweep(ctx, r, o, t).emptyRoot(o.fateInTrashOnly)
}

func newSweep(ctx context.Context, r *Root, o Options, t *tally) *sweep {
	s := &sweep{Gate: beneath.NewGate(ctx), ctx: ctx, root: r, limit: newLimiter(o.PerSecond), tally: t}
	workers := o.Workers
	if workers == 0 {
		workers = beneath.Workers(r.dir)
	}
	s.spare = make(chan struct{}, workers-1)
	return s
}

// emptyRoot makes passes until the root is empty, or passes remove nothing more.
func (s *sweep) emptyRoot(fate func(string) fate) error {
	s.fate = fate
	for pass, idle := 1, 0; ; pass++ {
		before := s.tally.entries()
		if err := s.walkOnce(); err != nil {
			return err
		}
		if s.tally.entries() == before {
			idle++
		} else {
			idle = 0
		}
		last := pass == maxPasses || idle == idlePasses
		switch {
		case s.lost && !last:
		case s.left.Count > 0 && (last || idle > 0):
			return &s.left
		case s.left.Count == 0:
			if err := verify(s.ctx, s.root, fate); err == nil || last || !isNotEmpty(err) {
				return err
			}
		}
	}
}

func isNotEmpty(err error) bool {
	var notEmpty *NotEmptyError
	return errors.As(err, &notEmpty)
}

// walkOnce walks through the root once.
func (s *sweep) walkOnce() error {
	s.left = UnremovableError{beneath.Failures{Root: s.root.path}}
	s.lost = false
	top, err := s.root.openForListing(s.ctx)
	if err != nil {
		return err
	}
	w := &walker{sweep: s, stack: beneath.NewStack(top)}
	w.run()
	return s.Err()
}

// openForListing opens the root anew, to list it, and verifies its identity.
func (r *Root) openForListing(ctx context.Context) (*frame, error) {
	if ctx.Err() != nil {
		return nil, ctxend.Error(ctx)
	}
	fd, err := beneath.OpenSelf(r.dir, beneath.ToList)
	if err != nil {
		return nil, err
	}
	at, err := confirm(fd, r.id)
	if err == nil && (at.Device != r.id.Device || at.Inode != r.id.Inode) {
		_ = unix.Close(fd)
		err = unix.ESTALE
	}
	if err != nil {
		return nil, err
	}
	return &frame{FD: fd, Place: at}, nil
}

// recordFailure records an entry that stays.
func (s *sweep) recordFailure(dir *frame, name string, err error) {
	dir.Note.stuck.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.Add(dir.PathOf(name), err)
}

// recordLostWay records that a walker could not return to the directory above.
func (s *sweep) recordLostWay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
}

// remove unlinks one entry at the limited rate. It reports whether the work continues.
func (s *sweep) remove(dir *frame, name string, flags int) (error, bool) {
	if err := s.limit.wait(s.ctx); err != nil {
		s.Stop(err)
	}
	if !s.GoOn() {
		return nil, false
	}
	_, err := beneath.RetryInterrupted(func() (int, error) { return 0, unlinkat(dir.FD, name, flags) })
	return err, true
}

package scrub

import (
	"context"
	"errors"
	"sync"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// unlinkat is the one call that deletes. Tests put another one here.
var unlinkat = unix.Unlinkat

const (
	// maxPasses over a directory, and over the root, take what is created meanwhile,
	// and what some file systems pass over while entries before it go.
	maxPasses = 64
	// idlePasses may find nothing to remove before it is given up.
	idlePasses = 3
)

// A sweep is the work of one call, shared by its workers.
type sweep struct {
	*beneath.Gate
	ctx   context.Context
	root  *Root
	fate  func(name string) fate
	limit *limiter
	weigh bool // count bytes
	tally *tally
	spare chan struct{} // holds as many as may be started besides

	mu   sync.Mutex
	left UnremovableError
	lost bool // a worker did not find its way back: there must be another pass
}

func deleteAll(ctx context.Context, r *Root, o Options, t *tally) error {
	return newSweep(ctx, r, o, t).empty(o.fate)
}

func deleteTrash(ctx context.Context, r *Root, o Options, t *tally) error {
	return newSweep(ctx, r, o, t).empty(o.fateOfTrash)
}

func newSweep(ctx context.Context, r *Root, o Options, t *tally) *sweep {
	s := &sweep{Gate: beneath.NewGate(ctx), ctx: ctx, root: r, limit: newLimiter(o.PerSecond), weigh: o.Progress != nil, tally: t}
	workers := o.Workers
	if workers == 0 {
		workers = beneath.Workers(r.dir)
	}
	s.spare = make(chan struct{}, workers-1)
	return s
}

// empty makes passes until one finds nothing that it can remove.
func (s *sweep) empty(fate func(string) fate) error {
	s.fate = fate
	for pass, idle := 1, 0; ; pass++ {
		before := s.tally.entries()
		if err := s.pass(); err != nil {
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

// pass walks through all that there is, once.
func (s *sweep) pass() error {
	s.left = UnremovableError{Root: s.root.path}
	s.lost = false
	top, err := s.root.list(s.ctx)
	if err != nil {
		return err
	}
	w := &walker{sweep: s, stack: beneath.NewStack(top)}
	w.run()
	return s.Err()
}

// list opens the root anew, and looks whether it is what it was.
func (r *Root) list(ctx context.Context) (*frame, error) {
	if ctx.Err() != nil {
		return nil, ctxend.Error(ctx)
	}
	fd, err := beneath.OpenSelf(r.dir, beneath.ToList)
	if err != nil {
		return nil, err
	}
	at, err := confirm(fd, r.id)
	if err == nil && at.Inode != r.id.Inode {
		_ = unix.Close(fd)
		err = unix.ESTALE
	}
	if err != nil {
		return nil, err
	}
	return &frame{FD: fd, Place: at}, nil
}

// note counts an entry that stays.
func (s *sweep) note(dir *frame, name string, err error) {
	dir.Note.stuck.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.Count++
	if len(s.left.Entries) < beneath.Named {
		s.left.Entries = append(s.left.Entries, Unremovable{Path: dir.PathOf(name), Err: err})
	}
}

func (s *sweep) noteLost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
}

// remove unlinks one entry, if it is time, and reports whether the caller may go on.
func (s *sweep) remove(dir *frame, name string, flags int) (error, bool) {
	if err := s.limit.wait(s.ctx); err != nil {
		s.Stop(err)
	}
	if !s.GoOn() {
		return nil, false
	}
	_, err := beneath.Again(func() (int, error) { return 0, unlinkat(dir.FD, name, flags) })
	return err, true
}

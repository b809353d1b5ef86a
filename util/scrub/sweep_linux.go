package scrub

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

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
	ctx    context.Context
	root   *Root
	fate   func(name string) fate
	limit  *limiter
	weigh  bool // count bytes
	tally  *tally
	spare  chan struct{} // holds as many as may be started besides
	failed atomic.Bool   // a worker has an error that ends the work

	mu   sync.Mutex
	err  error // the first that ended a worker
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
	s := &sweep{ctx: ctx, root: r, limit: newLimiter(o.PerSecond), weigh: o.Progress != nil, tally: t}
	workers := o.Workers
	if workers == 0 {
		workers = helpful(r.dir)
	}
	s.spare = make(chan struct{}, workers-1)
	return s
}

// helpful is how many workers help: where there is a server to wait for, more than
// processors.
func helpful(dir int) int {
	const local, remote = 2, 16
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir, &fs); err == nil {
		switch fs.Type {
		case unix.NFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
			return remote
		}
	}
	return min(local, runtime.GOMAXPROCS(0))
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
	w := &walker{sweep: s, stack: []*frame{top}, low: 1}
	w.run()
	return s.err
}

// list opens the root anew, and looks whether it is what it was.
func (r *Root) list(ctx context.Context) (*frame, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	fd, err := openSelf(r.dir)
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
	return &frame{fd: fd, place: at}, nil
}

// stop ends all workers, with the first error of any.
func (s *sweep) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.failed.Store(true)
}

// goOn is asked before each system call that may wait for a file system.
func (s *sweep) goOn() bool {
	if s.ctx.Err() != nil {
		s.stop(ended(s.ctx))
	}
	return !s.failed.Load()
}

// note counts an entry that stays.
func (s *sweep) note(dir *frame, name string, err error) {
	dir.stuck.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.Count++
	if len(s.left.Entries) < named {
		s.left.Entries = append(s.left.Entries, Unremovable{Path: dir.pathOf(name), Err: err})
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
		s.stop(err)
	}
	if !s.goOn() {
		return nil, false
	}
	_, err := again(func() (int, error) { return 0, unlinkat(dir.fd, name, flags) })
	return err, true
}

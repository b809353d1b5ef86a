package ownership

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A work is that of one call, shared by its workers.
type work struct {
	Options
	ctx    context.Context
	home   place
	apart  bool // home is a mount in which nothing is mounted
	tally  *tally
	spare  chan struct{} // holds as many as may be started besides
	all    sync.WaitGroup
	failed atomic.Bool // a worker has an error that ends the work
	// first is called before each change below the root, and does its work once.
	first func()

	mu        sync.Mutex
	err       error // the first that ended a worker
	unchanged UnchangedError
}

func apply(ctx context.Context, dir string, o Options, t *tally) error {
	fd, home, err := openRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	end, err := takeTurn(ctx, home.identity)
	if err != nil {
		return err
	}
	defer end()
	w := &work{Options: o, ctx: ctx, home: home, tally: t, unchanged: UnchangedError{Dir: dir}}
	s, _, err := stateOf(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	t.seen.Add(1)
	if o.Policy == OnRootMismatch && o.change(s).none() {
		return nil
	}
	w.first = sync.OnceFunc(func() { w.unfinish(fd) })
	if err := w.below(fd); err != nil {
		return err
	}
	return w.root(fd)
}

// unfinish takes set-group-ID from a root that has it, so that nobody takes it for done,
// not for the group that all was right for until now either. In the end root gives it
// back. If it cannot be taken from one that is right as it is, nothing is lost: that
// one was for done before.
func (w *work) unfinish(fd int) {
	s, _, err := stateOf(fd, "", unix.AT_EMPTY_PATH)
	if err == nil && w.Group != nil && s.mode&setGroupID != 0 && w.goOn() {
		err = chmod(fd, s.mode&^setGroupID)
		if w.change(s).none() {
			return
		}
	}
	if err != nil {
		w.stop(err)
	}
}

// below sees to all that is in the directory.
func (w *work) below(dir int) error {
	workers := w.Workers
	if workers == 0 {
		workers = helpful(dir)
	}
	w.spare = make(chan struct{}, workers-1)
	if tree, at, ok := apart(dir, w.home); ok {
		defer func() { _ = unix.Close(tree) }()
		dir, w.home, w.apart = tree, at, true
	}
	fd, err := openSelf(dir, toList)
	if err != nil {
		return err
	}
	first := &walker{work: w, stack: []*frame{{place: w.home, fd: fd}}, low: 1}
	w.all.Go(first.run)
	w.all.Wait()
	switch {
	case w.err != nil:
		return w.err
	case w.unchanged.Count > 0:
		return &w.unchanged
	}
	return nil
}

// root comes last: a directory that is right has nothing in it that is not.
func (w *work) root(fd int) error {
	s, _, err := stateOf(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	c := w.change(s)
	err = carryOut(fd, c, w.goOn)
	if err == nil && w.err == nil && !c.none() {
		w.tally.changed.Add(1)
	}
	return errors.Join(err, w.err)
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

// stop ends all workers, with the first error of any.
func (w *work) stop(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.failed.Store(true)
}

// goOn is asked before each system call that may wait for a file system.
func (w *work) goOn() bool {
	if w.ctx.Err() != nil {
		w.stop(ended(w.ctx))
	}
	return !w.failed.Load()
}

// note counts an entry that stays as it is. What would be so for each ends the work.
func (w *work) note(dir *frame, name string, err error) {
	switch {
	case errors.Is(err, unix.ENOENT): // it is gone
		return
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		w.stop(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unchanged.Count++
	if len(w.unchanged.Entries) < named {
		w.unchanged.Entries = append(w.unchanged.Entries, Unchanged{Path: dir.pathOf(name), Err: err})
	}
}

package ownership

import (
	"context"
	"errors"
	"sync"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// A work is that of one call, shared by its workers.
type work struct {
	Options
	*beneath.Gate
	home  beneath.Place
	apart bool // home is a mount in which nothing is mounted
	tally *tally
	spare chan struct{} // holds as many as may be started besides
	all   sync.WaitGroup
	// first is called before each change below the root, and does its work once.
	first func()

	mu        sync.Mutex
	unchanged UnchangedError
}

func identityOf(at beneath.Place) identity { return identity{at.Device, at.Inode} }

func apply(ctx context.Context, dir string, o Options, t *tally) error {
	fd, home, err := beneath.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	end, err := takeTurn(ctx, identityOf(home))
	if err != nil {
		return err
	}
	defer end()
	w := &work{Options: o, Gate: beneath.NewGate(ctx), home: home, tally: t, unchanged: UnchangedError{Dir: dir}}
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
	if err == nil && w.Group != nil && s.mode&setGroupID != 0 && w.GoOn() {
		err = chmod(fd, s.mode&^setGroupID)
		if w.change(s).none() {
			return
		}
	}
	if err != nil {
		w.Stop(err)
	}
}

// below sees to all that is in the directory.
func (w *work) below(dir int) error {
	workers := w.Workers
	if workers == 0 {
		workers = beneath.Workers(dir)
	}
	w.spare = make(chan struct{}, workers-1)
	if tree, at, ok := apart(dir, w.home); ok {
		defer func() { _ = unix.Close(tree) }()
		dir, w.home, w.apart = tree, at, true
	}
	fd, err := beneath.OpenSelf(dir, beneath.ToList)
	if err != nil {
		return err
	}
	first := &walker{work: w, stack: beneath.NewStack(&frame{Place: w.home, FD: fd})}
	w.all.Go(first.run)
	w.all.Wait()
	if err := w.Err(); err != nil {
		return err
	}
	if w.unchanged.Count > 0 {
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
	err = carryOut(fd, c, w.GoOn)
	if err == nil && w.Err() == nil && !c.none() {
		w.tally.changed.Add(1)
	}
	return errors.Join(err, w.Err())
}

// note counts an entry that stays as it is. What would be so for each ends the work.
func (w *work) note(dir *frame, name string, err error) {
	switch {
	case errors.Is(err, unix.ENOENT): // it is gone
		return
	case errors.Is(err, unix.EROFS), beneath.IsShortage(err):
		w.Stop(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unchanged.Count++
	if len(w.unchanged.Entries) < beneath.Named {
		w.unchanged.Entries = append(w.unchanged.Entries, Unchanged{Path: dir.PathOf(name), Err: err})
	}
}

package ownership

import (
	"context"
	"errors"
	"sync"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// A work is the state of one call, shared by its workers.
type work struct {
	Options
	*beneath.Gate
	home           beneath.Place
	hasNoSubmounts bool // home is in a clone without submounts
	tally          *tally
	spare          chan struct{} // holds a token for each additional worker
	all            sync.WaitGroup
	// first is called before each change below the root, and acts once.
	first func()

	mu        sync.Mutex
	unchanged UnchangedError
}

func identityOf(at beneath.Place) identity { return identity{at.Device, at.Inode} }

// apply does the work of Apply. It calls opened when opening the directory has ended.
func apply(ctx context.Context, dir string, o Options, t *tally, opened func()) error {
	fd, home, err := beneath.OpenRoot(dir)
	opened()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	end, err := takeTurn(ctx, identityOf(home))
	if err != nil {
		return err
	}
	defer end()
	w := &work{Options: o, Gate: beneath.NewGate(ctx), home: home, tally: t, unchanged: UnchangedError{beneath.Failures{Root: dir}}}
	s, _, err := stateOf(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	t.seen.Add(1)
	if o.Policy == OnRootMismatch && o.change(s).none() {
		return nil
	}
	w.first = sync.OnceFunc(func() { w.clearDoneMark(fd) })
	if err := w.changeContent(fd); err != nil {
		return err
	}
	return w.changeRoot(fd)
}

// clearDoneMark clears set-group-ID of a root that has it, so that OnRootMismatch does not
// mistake it for done, neither for the new group nor for the old one. root restores it at
// the end. If clearing fails on a root that is right already, the work continues: that
// root counted as done before.
func (w *work) clearDoneMark(fd int) {
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

// changeContent changes all entries below the directory. It returns an [*UnchangedError] if
// some entries could not be changed.
func (w *work) changeContent(dir int) error {
	workers := w.Workers
	if workers == 0 {
		workers = beneath.Workers(dir)
	}
	w.spare = make(chan struct{}, workers-1)
	if tree, at, ok := cloneWithoutSubmounts(dir, w.home); ok {
		defer func() { _ = unix.Close(tree) }()
		dir, w.home, w.hasNoSubmounts = tree, at, true
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

// changeRoot changes the root last: a root that is right shows that everything in it is
// right.
func (w *work) changeRoot(fd int) error {
	s, _, err := stateOf(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	c := w.change(s)
	err = applyChange(fd, c, w.GoOn)
	if err == nil && w.Err() == nil && !c.none() {
		w.tally.changed.Add(1)
	}
	return errors.Join(err, w.Err())
}

// recordFailure records an entry that could not be changed. An error that would repeat for every
// entry ends the work.
func (w *work) recordFailure(dir *frame, name string, err error) {
	switch {
	case errors.Is(err, unix.ENOENT): // removed meanwhile
		return
	case errors.Is(err, unix.EROFS), errors.Is(err, beneath.ErrUnmapped), beneath.IsShortage(err):
		w.Stop(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unchanged.Add(dir.PathOf(name), err)
}

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
	mayIgnore      bool // the file system may ignore changes
	tally          *tally
	spare          chan struct{} // holds a token for each additional worker
	all            sync.WaitGroup
	// first is called before each change below the root, and acts once.
	first func()
	// isAllReadOnly reports, after an EROFS, whether nothing in the directory can be changed. Otherwise
	// a part of it is read-only, such as a snapshot.
	isAllReadOnly func() bool

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
	w.mayIgnore = mayIgnore(fd)
	w.isAllReadOnly = sync.OnceValue(func() bool { return isAllReadOnly(fd) })
	w.first = sync.OnceFunc(func() { w.clearDoneMark(fd) })
	err = w.changeContent(fd)
	if err == nil {
		err = w.changeRoot(fd)
	}
	if errors.Is(err, unix.EROFS) && w.isAllReadOnly() {
		err = ErrReadOnly
	}
	return err
}

// isAllReadOnly reports whether the directory's mount or file system is read-only, here or on its
// server: if they say that they are writable it sets the present mode of the directory once more,
// which a read-only server refuses.
func isAllReadOnly(dir int) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(dir, &fs) == nil && fs.Flags&unix.ST_RDONLY != 0 {
		return true
	}
	s, _, err := stateOf(dir, "", unix.AT_EMPTY_PATH)
	return err == nil && errors.Is(chmod(dir, s.mode), unix.EROFS)
}

// clearDoneMark clears set-group-ID of a root that has it, so that OnRootMismatch does not
// mistake it for done, neither for the new group nor for the old one. changeRoot sets it again
// at the end. If clearing fails on a root that is right already, the work continues: that
// root counted as done before.
func (w *work) clearDoneMark(fd int) {
	s, _, err := stateOf(fd, "", unix.AT_EMPTY_PATH)
	if err == nil && w.Group != nil && s.mode&setGroupID != 0 && w.GoOn() {
		err = chmod(fd, s.mode&^setGroupID)
		if w.change(s).none() {
			return
		}
	}
	if err != nil && w.OnUnchanged != nil && !w.endsWork(err) {
		err = w.OnUnchanged(".", err)
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
// right, or was accepted by OnUnchanged.
func (w *work) changeRoot(fd int) error {
	s, _, err := stateOf(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	c := w.change(s)
	err = w.applyChange(fd, c)
	switch {
	case w.Err() != nil || w.endsWork(err):
	case err != nil && w.OnUnchanged != nil:
		err = w.OnUnchanged(".", err)
	case err == nil && !c.none():
		w.tally.changed.Add(1)
	}
	return errors.Join(err, w.Err())
}

// handleFailure handles an error of an entry: it forgets one that was removed, ends the work, asks
// OnUnchanged, or records the entry.
func (w *work) handleFailure(dir *frame, name string, err error) {
	switch {
	case errors.Is(err, unix.ENOENT): // removed meanwhile
		return
	case w.endsWork(err):
		w.Stop(err)
		return
	}
	if w.OnUnchanged != nil {
		if !w.GoOn() {
			return
		}
		if err = w.OnUnchanged(dir.PathOf(name), err); err == nil {
			return
		}
	}
	w.recordFailure(dir, name, err)
}

// recordFailure records an entry that could not be changed, and asks nobody.
func (w *work) recordFailure(dir *frame, name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unchanged.Add(dir.PathOf(name), err)
}

// endsWork reports whether the work ends with an error: all is read-only, the owner is not mapped,
// or the process or the machine is short of descriptors or memory.
func (w *work) endsWork(err error) bool {
	return errors.Is(err, unix.EROFS) && w.isAllReadOnly() || errors.Is(err, beneath.ErrUnmapped) || beneath.IsShortage(err)
}

package mounting

import (
	"context"
	"errors"
	"io/fs"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/util/ctxend"
)

// A NewDirectory describes the creation of a target.
type NewDirectory struct {
	Perm  fs.FileMode
	Below string // missing parents below it are created; empty: none are
	// MayWait permits calls that wait for the file system of the parent directory.
	MayWait bool
}

// MountNew creates the target and makes a bind mount there. Outside of the common case, for example
// if the target exists or is locked, it returns false without a change. It returns ErrWouldWait
// without a change if the file system of the parent directory may not answer.
func (m *Maker) MountNew(ctx context.Context, s *spec.Spec, dir NewDirectory) (mounted bool, err error) {
	unlock, ok := m.tryLock(s.Target)
	if !ok {
		return false, nil
	}
	defer unlock()
	made := newDirectoriesAt(-1, dir.MayWait || ctx.Done() == nil)
	defer made.close()
	a := m.newArrival(s)
	defer func() { a.target = noTarget; a.close() }() // made closes the target's descriptor
	if err = m.createTarget(made, s.Target, dir); err == nil {
		a.target = made.target()
		err = a.bindNew(ctx)
	}
	if err == nil {
		return true, nil
	}
	if failed := made.remove(err); failed != nil || !errors.Is(err, failure.ErrWouldWait) {
		return false, failed
	}
	return false, err
}

// tryLock locks a target, unless another operation has locked it.
func (m *Maker) tryLock(target string) (unlock func(), ok bool) {
	unlockInFlight, ok := m.inFlight.TryLock(target)
	if !ok {
		return nil, false
	}
	unlockChange, ok := m.Locks.TryLock(target)
	if !ok {
		unlockInFlight()
		return nil, false
	}
	return func() { unlockChange(); unlockInFlight() }, true
}

// createTarget creates the target, and missing parents of it, below a directory that is in the
// kernel's memory and whose mount has a unique mount ID (Linux 6.8).
func (m *Maker) createTarget(made *newDirectories, name string, dir NewDirectory) error {
	if err := made.openExisting(name, dir.Below); err != nil {
		return err
	}
	at, err := kernel.LocationOf(made.existing)
	switch {
	case err != nil:
		return err
	case !at.ID.Unique:
		return errors.ErrUnsupported
	case !made.mayWait && !m.Kinds.IsInMemory(at.ID):
		if made.targetIsCached() {
			return fs.ErrExist // the caller need not wait for this answer
		}
		return failure.ErrWouldWait
	}
	made.mount = at.ID
	return made.create(uint32(dir.Perm.Perm()))
}

// bindNew builds the bind mount and attaches it at the new directory. The steps are those of
// attempt, without the checks that a new directory does not need.
func (a *arrival) bindNew(ctx context.Context) error {
	if err := a.openSource(ctx); err != nil {
		return err
	}
	if err := a.checkSubmounts(ctx); err != nil {
		return err
	}
	if err := a.build(ctx); err != nil {
		return err
	}
	return a.attachNew(ctx)
}

// attachNew attaches the tree at the new directory, unless ctx has ended during the creation
// of the directory. A staged tree cannot be attached to a name.
func (a *arrival) attachNew(ctx context.Context) error {
	if a.tree.IsStaged() {
		return errors.ErrUnsupported
	}
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	return a.attachAndVerify(ctx)
}

package mounting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// A NewDirectory describes the creation of a target.
type NewDirectory struct {
	Perm fs.FileMode
	// MayWait permits calls that wait for the file system of the parent directory.
	MayWait bool
}

// MountNew creates the target and makes a bind mount there. It returns false without a change
// outside of the common case: if the target exists or is locked, or if a step may wait.
func (m *Maker) MountNew(ctx context.Context, s *spec.Spec, dir NewDirectory) (mounted bool, err error) {
	unlock, ok := m.tryLock(s.Target)
	if !ok {
		return false, nil
	}
	defer unlock()
	a := m.newArrival(s)
	defer a.close()
	if !a.createTarget(ctx, dir) {
		return false, nil
	}
	if err := a.bindNew(ctx); err != nil {
		return false, a.target.removeMade(err)
	}
	return true, nil
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

// createTarget creates the target in its parent, if the parent's mount has a unique mount ID
// (Linux 6.8).
func (a *arrival) createTarget(ctx context.Context, dir NewDirectory) bool {
	parent, name, err := a.maker.Resolver.WithoutLinks().OpenParent(ctx, a.spec.Target)
	if err != nil {
		return false
	}
	a.target = target{fd: parent, made: name, dir: true, parent: -1}
	above, err := kernel.LocationOf(parent)
	if err != nil || !above.ID.Unique {
		return false
	}
	a.target.mount = above.ID
	if !dir.MayWait && ctx.Done() != nil && !a.maker.Kinds.IsInMemory(above.ID) {
		return false
	}
	return unix.Mkdirat(parent, name, uint32(dir.Perm.Perm())) == nil
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

// removeMade removes the new directory after an error, and returns an error only if the
// directory may still have the mount. A directory that another process uses or has removed
// stays.
func (t *target) removeMade(err error) error {
	if errors.Is(err, failure.ErrUncertain) {
		return err
	}
	switch remove := unix.Unlinkat(t.fd, t.made, unix.AT_REMOVEDIR); {
	case remove == nil, errors.Is(remove, unix.ENOENT), errors.Is(remove, unix.EBUSY),
		errors.Is(remove, unix.ENOTEMPTY), errors.Is(remove, unix.ENOTDIR):
		return nil
	default:
		return failure.AsUncertain(fmt.Errorf("%w (removing the directory: %w)", err, remove))
	}
}

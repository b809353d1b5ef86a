package unmounting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/volumekit/volumekit/mount/internal/child"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/inflight"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// A departure is one mount on its way out of the mount table.
type departure struct {
	u      *Unmounter
	path   string
	parent int    // the directory that holds the mount point
	name   string // of the mount point in parent
	mount  kernel.Location
	// local: the kernel looks up the name in parent without waiting for a server, or the
	// context has no end.
	local bool
	// outlived: the superblock does not end with the mount. It has a hold, or another mount.
	outlived bool
	// brief: the superblock ends within umount2(2), which waits for nothing.
	brief bool
	hold  int
	stale bool // a mount of [lookup.StaleError], which cannot be held
	// end unregisters the departure; nil: it is not registered.
	end func()
	// lock keeps the path locked and the descriptors open until the last call returns.
	lock *inflight.Lease
}

// errHidden: the path leads to another mount than the one to be unmounted.
var errHidden = fmt.Errorf("hidden under another mount: %w", unix.EBUSY)

// removeFromTable unmounts the mount with an ID at path, or the top mount if the ID is 0. It
// returns errHidden if the path leads to another mount.
func (u *Unmounter) removeFromTable(ctx context.Context, path string, id uint64) error {
	unlock, err := u.Locks.Lock(ctx, path)
	if err != nil {
		return ctxend.Error(ctx)
	}
	d := &departure{u: u, path: path, parent: -1, hold: -1}
	d.lock = inflight.NewLease(func() { d.close(); unlock() })
	defer d.lock.Release()
	mounted, err := d.findMount(ctx, id)
	switch {
	case err != nil:
		return err
	case !mounted && id != 0:
		return errHidden
	case !mounted:
		return nil
	}
	err = d.unmountPlain(ctx)
	if errors.Is(err, unix.EBUSY) {
		err = d.escalate(ctx, err)
	}
	if err == nil && d.hold >= 0 {
		u.ends.add(path, d.releaseHold())
	}
	return err
}

// findMount resolves the path and reports whether a mount is there, and has the ID unless
// that is 0. It registers the departure of the mount, and holds the superblock if no other
// mount outlives it.
func (d *departure) findMount(ctx context.Context, id uint64) (mounted bool, err error) {
	mounted, err = d.enterMount(ctx, id)
	var stale *lookup.StaleError
	if !errors.As(err, &stale) {
		return mounted, err
	}
	d.stale, d.mount = true, kernel.Location{ID: kernel.MountID{Number: uint64(stale.Mount.ID)}}
	return id == 0 || id == d.mount.ID.Number, nil
}

// enterMount is findMount for a mount that is not stale.
func (d *departure) enterMount(ctx context.Context, id uint64) (mounted bool, err error) {
	if d.parent, d.name, err = d.u.Resolver.WithoutLinks().OpenParent(ctx, d.path); err != nil {
		return false, err
	}
	above, err := kernel.LocationOf(d.parent)
	if err != nil {
		return false, err
	}
	d.local = ctx.Done() == nil || d.u.Kinds.IsLocal(above.ID)
	fd, err := d.openMount(ctx)
	if err != nil {
		return false, err
	}
	defer kernel.Close(fd) // before the first umount2(2): an open descriptor keeps the mount busy
	if d.mount, err = kernel.LocationOf(fd); err != nil || !d.mount.IsMountIn(above) {
		return false, err
	}
	if id != 0 {
		if found, err := kernel.Identify(fd); err != nil || found.Mount != id {
			return false, err
		}
	}
	d.u.ForgetAnchor(d.mount.ID)
	if outlived, err := d.register(ctx, above); outlived || err != nil {
		return true, err
	}
	if d.brief = d.endsBriefly(fd); !d.brief {
		d.holdSuperblock(fd)
	}
	return true, nil
}

// openMount opens the root of the top mount at the path, or a symbolic link itself.
func (d *departure) openMount(ctx context.Context) (int, error) {
	return d.u.Resolver.FollowingLinks().OpenChild(ctx, d.parent, d.name)
}

// register registers the departure and reports whether the superblock is outlived. A mount of
// the parent's superblock needs no registration: the parent directory is open.
func (d *departure) register(ctx context.Context, above kernel.Location) (bool, error) {
	if d.mount.SameFileSystem(above) {
		d.outlived = true
		return true, nil
	}
	var err error
	d.end, d.outlived, err = d.u.BeginDeparture(ctx, d.mount)
	return d.outlived, err
}

// releaseHold releases the hold. The channel is closed when the superblock has ended.
func (d *departure) releaseHold() <-chan struct{} {
	hold := d.hold
	d.hold = -1
	return child.ReleaseSuperblock(hold)
}

// close releases all that the departure holds, when no call of it is in flight.
func (d *departure) close() {
	if d.hold >= 0 {
		d.releaseHold()
	}
	if d.end != nil {
		d.end()
	}
	kernel.Close(d.parent)
}

// unmountPlain unmounts without force. It retries a few times while the mount is busy: a
// process may have it open for an instant, to read its attributes.
func (d *departure) unmountPlain(ctx context.Context) error {
	err := d.unmountAndVerify(ctx, 0)
	if errors.Is(err, unix.EBUSY) && d.brief {
		d.holdBusy(ctx)
	}
	for pause := time.Millisecond; errors.Is(err, unix.EBUSY) && pause < 16*time.Millisecond; pause *= 2 {
		if stopped := ctxend.Sleep(ctx, pause); stopped != nil {
			return fmt.Errorf("%w: %w", stopped, err)
		}
		err = d.unmountAndVerify(ctx, 0)
	}
	return err
}

// unmountAndVerify calls umount2(2) and checks that the mount has left the mount table.
func (d *departure) unmountAndVerify(ctx context.Context, flags int) error {
	call := func() error { return unmountAt(d.parent, d.name, flags) }
	var err error
	if ctx.Done() == nil || d.local && (d.outlived || d.brief) { // neither lookup nor unmount waits
		err = call()
	} else {
		err = d.callInBackground(ctx, call)
	}
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return d.verify(ctx, err)
	}
	return err
}

// Umount2 is a variable for tests.
var Umount2 = unix.Unmount

// unmountAt calls umount2(2) with a path through the descriptor of the parent directory: a
// descriptor of the mount itself would keep the mount busy.
func unmountAt(parent int, name string, flags int) error {
	return Umount2(kernel.DescriptorPath(parent)+"/"+name, unix.UMOUNT_NOFOLLOW|flags)
}

// callInBackground makes a call that may wait, and returns soon after ctx ends. The path
// stays locked until the call ends.
func (d *departure) callInBackground(ctx context.Context, call func() error) error {
	d.lock.Share()
	done := make(chan error, 1)
	go func() {
		err := call()
		d.lock.Release()
		done <- err
	}()
	if err, ok := ctxend.Receive(ctx, done, inflight.Grace); ok {
		return err
	}
	return failure.AsUncertain(ctxend.Error(ctx))
}

// verify returns nil if the mount has left the mount table after umount2(2) returned err:
//
//   - EINVAL: no mount point, since another process was faster; or a locked mount.
//   - ENOENT: no such path; or, with the mount still in the table, no /proc.
func (d *departure) verify(ctx context.Context, err error) error {
	mounted, checkErr := d.isMounted(ctx)
	switch {
	case checkErr != nil && err == nil && ctx.Err() != nil:
		return nil // without time for the check, the success of umount2(2) counts
	case checkErr != nil:
		return checkErr
	case !mounted:
		return nil
	case err == nil:
		return failure.ErrStillMounted
	case errors.Is(err, unix.ENOENT):
		return kernel.ErrNoProc
	}
	return err
}

// isMounted reports whether the mount is in the mount table. Another mount at the path does
// not count.
func (d *departure) isMounted(ctx context.Context) (bool, error) {
	if d.mount.ID.Unique {
		_, err := record.ReadBasic(d.mount.ID.Number)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err == nil, ignoreError(err, fs.ErrNotExist)
		}
	}
	fd, err := d.openMount(ctx)
	var stale *lookup.StaleError
	if errors.As(err, &stale) { // with a unique ID it may be the mount, which has become stale
		return d.mount.ID.Unique || uint64(stale.Mount.ID) == d.mount.ID.Number, nil
	}
	if err != nil {
		return false, ignoreError(err, fs.ErrNotExist)
	}
	defer kernel.Close(fd)
	now, err := kernel.LocationOf(fd)
	return err == nil && now.ID == d.mount.ID, err
}

// ignoreError returns nil if err wraps ignored, and err otherwise.
func ignoreError(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

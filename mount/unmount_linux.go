package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// A departure is a mount on its way out of the tree of mounts.
//
// No step of it waits for the mount's file system: the file system's end, which
// umount2(2) waits for, is put off by a hold, and left to a guard. What still can
// wait, as the kernel may have to ask the file system of the directory for a name,
// or gives no holds, is done in a goroutine that keeps the path locked for as long
// as it takes.
type departure struct {
	m      *Mounter
	path   string
	parent int    // the directory that holds the mount point
	name   string // its name in there
	mount  standing
	calm   bool // looking the name up waits for nobody
	// held is that the file system cannot end with this mount: it is that of the
	// parent, too, or is mounted elsewhere, or there is a hold.
	held bool
	hold int
	gone func() // says that it is no longer on its way
	// changing keeps the path locked, and what the departure has open.
	changing *lease
}

// unmount undoes the top mount at path: if number is not 0 only one that has it in
// the mount table; that something else is there is errOther then.
func (m *Mounter) unmount(ctx context.Context, path string, number uint64) error {
	if err := m.config.Unmount.check(); err != nil {
		return err
	}
	if err := m.depart(ctx, path, number); err != nil {
		return err
	}
	return m.leaving.ends.wait(ctx, path)
}

// errOther is that the path leads to another mount than was meant.
var errOther = fmt.Errorf("another mount hides it: %w", unix.EBUSY)

func (m *Mounter) depart(ctx context.Context, path string, number uint64) error {
	unlock, err := m.changing.Lock(ctx, path)
	if err != nil {
		return ctxend.Error(ctx)
	}
	d := &departure{m: m, path: path, parent: -1, hold: -1}
	d.changing = newLease(func() { d.close(); unlock() })
	defer d.changing.end()
	mounted, err := d.find(ctx, number)
	switch {
	case err != nil:
		return err
	case !mounted && number != 0:
		return errOther
	case !mounted:
		return nil
	}
	err = d.leave(ctx)
	if errors.Is(err, unix.EBUSY) {
		err = d.escalate(ctx, err)
	}
	if err == nil && d.hold >= 0 {
		d.m.leaving.ends.add(path, d.release())
	}
	return err
}

// find resolves the path and reports whether something is mounted there, or the
// mount of that number.
func (d *departure) find(ctx context.Context, number uint64) (mounted bool, err error) {
	if d.parent, d.name, err = (lookup{m: d.m, ctx: ctx}).parent(d.path); err != nil {
		return false, err
	}
	above, err := standingOf(d.parent)
	if err != nil {
		return false, err
	}
	d.calm = ctx.Done() == nil || d.m.leaving.calm.includes(above)
	fd, err := d.open(ctx)
	if err != nil {
		return false, err
	}
	defer closeFD(fd) // before the first try: it would keep the mount busy
	if d.mount, err = standingOf(fd); err != nil || !d.mount.isMountIn(above) {
		return false, err
	}
	if number != 0 {
		if id, err := identify(fd); err != nil || id.mount != number {
			return false, err
		}
	}
	d.m.anchors.forget(d.mount.id)
	return true, d.keep(ctx, fd, above)
}

// open opens what is at the place, a symbolic link itself.
func (d *departure) open(ctx context.Context) (int, error) {
	return lookup{m: d.m, ctx: ctx, followLinks: true}.child(d.parent, d.name)
}

// keep sees to it that the file system does not end with the mount at fd.
func (d *departure) keep(ctx context.Context, fd int, above standing) error {
	if d.mount.sameFileSystem(above) {
		d.held = true // by the directory above, which is open
		return nil
	}
	var err error
	if d.gone, d.held, err = d.m.goes(ctx, d.mount); err != nil || d.held {
		return err
	}
	if hold, err := hold(fd); err == nil {
		d.hold, d.held = hold, true
	}
	return nil
}

// release ends the hold; what it returns tells of the end of the file system.
func (d *departure) release() <-chan struct{} {
	hold := d.hold
	d.hold = -1
	return letGo(hold)
}

// close is called when nobody is at it any more.
func (d *departure) close() {
	if d.hold >= 0 {
		d.release()
	}
	if d.gone != nil {
		d.gone()
	}
	closeFD(d.parent)
}

// leave is umount2(2) without force, and a few times if the mount is busy: somebody
// may be having a look at it.
func (d *departure) leave(ctx context.Context) error {
	err := d.umount(ctx, 0)
	for pause := time.Millisecond; errors.Is(err, unix.EBUSY) && pause < 16*time.Millisecond; pause *= 2 {
		if stopped := sleep(ctx, pause); stopped != nil {
			return fmt.Errorf("%w: %w", stopped, err)
		}
		err = d.umount(ctx, 0)
	}
	return err
}

// sleep returns the context's error if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctxend.Error(ctx)
	}
}

// umount calls umount2(2) and looks whether the mount is gone.
func (d *departure) umount(ctx context.Context, flags int) error {
	call := func() error { return umountAt(d.parent, d.name, flags) }
	var err error
	if ctx.Done() == nil || d.calm && d.held {
		err = call()
	} else {
		err = d.inBackground(ctx, call)
	}
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return d.verify(ctx, err)
	}
	return err
}

// umount2 is a variable for tests.
var umount2 = unix.Unmount

// umountAt goes by the open directory, not by the mount's own descriptor: that
// would keep the mount busy.
func umountAt(parent int, name string, flags int) error {
	return umount2(procFD(parent)+"/"+name, unix.UMOUNT_NOFOLLOW|flags)
}

// inBackground makes a call that may wait, and returns soon after ctx ends. Until
// the call has ended the path stays locked.
func (d *departure) inBackground(ctx context.Context, call func() error) error {
	d.changing.share()
	done := make(chan error, 1)
	go func() {
		err := call()
		d.changing.end()
		done <- err
	}()
	if err, ok := ctxend.Receive(ctx, done, settle); ok {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUncertain, ctxend.Error(ctx))
}

// verify asks the mount table what has become of the mount. EINVAL means "no mount
// point", since another process was faster, or "not yours to unmount"; ENOENT of a
// mount that is there means that the path through /proc leads nowhere.
func (d *departure) verify(ctx context.Context, err error) error {
	still, checkErr := d.isStillThere(ctx)
	switch {
	case checkErr != nil && err == nil && ctx.Err() != nil:
		return nil // there is no time to doubt the kernel's word
	case checkErr != nil:
		return checkErr
	case !still:
		return nil
	case err == nil:
		return ErrStillMounted
	case errors.Is(err, unix.ENOENT):
		return errNoProc
	}
	return err
}

// errNoProc is no ENOENT: the mount is there.
var errNoProc = fmt.Errorf("it takes /proc, which is not mounted: %w", errors.ErrUnsupported)

// isStillThere looks for this very mount. Another at its place is not taken for it.
func (d *departure) isStillThere(ctx context.Context) (bool, error) {
	if d.mount.id.unique {
		_, err := statMountID(d.mount.id.number)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err == nil, ignore(err, fs.ErrNotExist)
		}
	}
	fd, err := d.open(ctx)
	if err != nil {
		return false, ignore(err, fs.ErrNotExist)
	}
	defer closeFD(fd)
	now, err := standingOf(fd)
	return err == nil && now.id == d.mount.id, err
}

// ignore returns no error if err is the one to be ignored.
func ignore(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

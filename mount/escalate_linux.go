package mount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// escalate does by the policy with a busy mount what its file system deserves. One
// that answers keeps it, and so does one with other mounts inside, which must not
// go with it.
func (d *departure) escalate(ctx context.Context, busy error) error {
	policy := d.m.config.Unmount
	if ctx.Err() != nil {
		return busy
	}
	if has, err := d.hasMountsInside(ctx); has || err != nil {
		return errors.Join(busy, err)
	}
	answers, err := d.answers(ctx, policy.grace())
	if err != nil {
		return fmt.Errorf("%w: %w", err, busy)
	}
	if answers {
		return busy
	}
	dead := fmt.Errorf("%w: %w", ErrNotAnswering, busy)
	if policy.Last == UnmountPlain {
		return dead
	}
	err = d.force(ctx, policy.grace(), dead)
	if policy.Last == UnmountForce || !errors.Is(err, dead) || ctx.Err() != nil {
		return err
	}
	return d.detach(ctx)
}

// answers asks through the hold, or else through what is at the place: that keeps
// the mount busy until it is answered.
func (d *departure) answers(ctx context.Context, grace time.Duration) (bool, error) {
	fd := d.hold
	if fd < 0 {
		var err error
		if fd, err = d.open(ctx); err != nil {
			return false, err
		}
		defer closeFD(fd)
	}
	return d.m.answers(ctx, d.mount.id, fd, grace)
}

// force aborts what waits for the file system, and unmounts when those who waited
// have left. Its time, too, begins with the first call that forces this mount. After
// it dead says why the mount is still there.
func (d *departure) force(ctx context.Context, grace time.Duration, dead error) error {
	for deadline := d.m.leaving.forced.since(d.mount.id).Add(grace); ; {
		err := d.umount(ctx, unix.MNT_FORCE)
		switch {
		case errors.Is(err, unix.EPERM):
			return fmt.Errorf("%w (forcing it: %w)", dead, err)
		case !errors.Is(err, unix.EBUSY):
			d.m.leaving.forced.forget(d.mount.id)
			return err
		case !time.Now().Before(deadline):
			return dead
		}
		const pause = 5 * time.Millisecond
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%w: %w", err, dead)
		}
	}
}

// detach takes the mount out of the tree. Those who use it keep it, and its file
// system, until they close it: nobody waits for that end.
func (d *departure) detach(ctx context.Context) error {
	if err := d.umount(ctx, unix.MNT_DETACH); err != nil {
		return err
	}
	d.m.leaving.forced.forget(d.mount.id)
	if d.hold >= 0 {
		d.release()
	}
	return nil
}

// hasMountsInside reports whether anything is mounted in the mount.
func (d *departure) hasMountsInside(ctx context.Context) (bool, error) {
	if d.mount.id.unique {
		inside, err := anyMountIn(d.mount.id.number)
		if !errors.Is(err, errors.ErrUnsupported) {
			return inside, err
		}
	}
	fd, err := d.open(ctx)
	if err != nil {
		return false, err
	}
	id, err := identify(fd)
	closeFD(fd)
	if err != nil {
		return false, err
	}
	table, err := readTableIn(ctx)
	return slices.ContainsFunc(table, func(i Info) bool { return uint64(i.Parent) == id.mount }), err
}

// firsts are the times at which something was first done to a mount.
type firsts struct {
	mu    sync.Mutex
	times map[mountID]time.Time
}

// since returns the time for a mount, which is now if it is the first.
func (f *firsts) since(mount mountID) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if since, ok := f.times[mount]; ok {
		return since
	}
	if f.times == nil || len(f.times) >= mostKnown {
		f.times = map[mountID]time.Time{} // of mounts that went another way
	}
	f.times[mount] = time.Now()
	return f.times[mount]
}

func (f *firsts) forget(mount mountID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.times, mount)
}

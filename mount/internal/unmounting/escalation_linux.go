package unmounting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// escalate unmounts a busy mount by force, as far as the policy permits, if its file system
// does not answer. It returns busy, the error of the plain unmount, if the file system
// answers, or if other mounts are inside, which may be in use on their own.
func (d *departure) escalate(ctx context.Context, busy error) error {
	policy := d.u.Policy
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctxend.Error(ctx), busy)
	}
	if has, err := d.hasMountsInside(ctx); has || err != nil {
		return errors.Join(busy, err)
	}
	answers, err := d.probeFileSystem(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", err, busy)
	}
	if answers {
		return busy
	}
	dead := fmt.Errorf("%w: %w", failure.ErrNotAnswering, busy)
	if !policy.MayForce {
		return dead
	}
	err = d.force(ctx, dead)
	if !policy.MayDetach || !errors.Is(err, dead) || ctx.Err() != nil {
		return err
	}
	return d.detach(ctx)
}

// probeFileSystem reports whether the file system answers within the grace. The probe uses
// the hold; without a hold it opens the mount, which stays busy until the answer. A mount that is
// still stale counts as one that does not answer, like a removed export.
func (d *departure) probeFileSystem(ctx context.Context) (answers bool, err error) {
	if d.stale {
		fd, err := d.openMount(ctx)
		kernel.Close(fd)
		return !errors.As(err, new(*lookup.StaleError)), ctx.Err()
	}
	fd := d.hold
	if fd < 0 {
		if fd, err = d.openMount(ctx); err != nil {
			return false, err
		}
		defer kernel.Close(fd)
	}
	return d.u.Probes.Responds(ctx, d.mount.ID, fd, d.u.Policy.Grace)
}

// force aborts the calls that wait for the file system, and unmounts as soon as their
// processes have closed their files. The grace begins with the first force of this mount, by
// any caller; after it force returns dead.
func (d *departure) force(ctx context.Context, dead error) error {
	for deadline := d.u.forced.record(d.mount.ID).Add(d.u.Policy.Grace); ; {
		err := d.unmountAndVerify(ctx, unix.MNT_FORCE)
		switch {
		case errors.Is(err, unix.EPERM):
			return fmt.Errorf("%w (MNT_FORCE requires CAP_SYS_ADMIN in the user namespace of the file system: %w)", dead, err)
		case !errors.Is(err, unix.EBUSY):
			d.u.forced.forget(d.mount.ID)
			return err
		case !time.Now().Before(deadline):
			return dead
		}
		const pause = 5 * time.Millisecond
		if err := ctxend.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("%w: %w", err, dead)
		}
	}
}

// detach removes the mount from the mount table while it is in use. Its users keep the
// superblock alive until they close their files; no caller waits for that end.
func (d *departure) detach(ctx context.Context) error {
	if err := d.unmountAndVerify(ctx, unix.MNT_DETACH); err != nil {
		return err
	}
	d.u.forced.forget(d.mount.ID)
	if d.hold >= 0 {
		d.releaseHold()
	}
	return nil
}

// hasMountsInside reports whether other mounts are attached in the mount.
func (d *departure) hasMountsInside(ctx context.Context) (bool, error) {
	if d.mount.ID.Unique {
		inside, err := record.HasMountsIn(d.mount.ID.Number)
		if !errors.Is(err, errors.ErrUnsupported) {
			return inside, err
		}
	}
	id, err := d.tableID(ctx)
	if err != nil {
		return false, err
	}
	table, err := mountinfo.Read(ctx)
	isInside := func(e mountinfo.Entry) bool { return uint64(e.Parent) == id }
	return slices.ContainsFunc(table, isInside), err
}

// tableID returns the mount's ID in the mount table.
func (d *departure) tableID(ctx context.Context) (uint64, error) {
	if !d.mount.ID.Unique {
		return d.mount.ID.Number, nil
	}
	fd, err := d.openMount(ctx)
	if err != nil {
		return 0, err
	}
	defer kernel.Close(fd)
	id, err := kernel.Identify(fd)
	return id.Mount, err
}

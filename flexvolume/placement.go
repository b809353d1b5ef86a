package flexvolume

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
)

// A placement is a directory at which a driver mounts, with the operation that unmounts there.
type placement struct {
	plugin *Plugin
	dir    string
	down   string // "unmount" or "unmountdevice"
}

// A mounting is the work of mounting a volume at a placement.
type mounting struct {
	driver   *installed
	readOnly bool // the specification is
	// enforcesReadOnly adds the flag ro to the mount of a read-only volume: drivers may ignore the option.
	enforcesReadOnly bool
	// prepare reads what mountAt needs, and returns the values of the Secret, which no error has. Nil: nothing.
	prepare func(ctx context.Context) (secrets []string, err error)
	mountAt func(ctx context.Context, dir string) error
	finish  func(ctx context.Context, dir string) error // for a mounted volume; nil: nothing
}

// ensureMounted mounts the volume, as the only operation on the directory, unless it is mounted. An interrupted call is
// undone first.
func (t placement) ensureMounted(ctx context.Context, w mounting) error {
	return t.plugin.mounts.Exclusively(ctx, t.dir, func(ctx context.Context, dir string) error {
		t := placement{t.plugin, dir, t.down}
		n, noted, err := t.plugin.readNote(ctx, dir)
		if err != nil {
			return err
		}
		mounted, err := t.isMounted(ctx)
		switch {
		case err != nil:
			return err
		case noted && n.Changing:
			if err := t.undoInterrupted(ctx, w.driver, n, mounted); err != nil {
				return err
			}
		case mounted && noted && n.ReadOnly != w.readOnly:
			return fmt.Errorf("%s: %w: read-only: %t, requested: %t", dir, volume.ErrAlreadyMounted, n.ReadOnly, w.readOnly)
		case mounted && noted:
			return nil
		case mounted: // no note records the mount: a kubelet may have made it
			return t.makeReadOnly(ctx, w)
		}
		return t.mount(ctx, w)
	})
}

// mount mounts the volume, and notes it. After an error that is not uncertain nothing is mounted; a note of an earlier
// interrupted call may remain.
func (t placement) mount(ctx context.Context, w mounting) error {
	var secrets []string
	if w.prepare != nil {
		var err error
		if secrets, err = w.prepare(ctx); err != nil {
			return err
		}
	}
	n := note{Changing: true, ReadOnly: w.readOnly, Secret: len(secrets) > 0}
	return t.plugin.mounts.MountWith(ctx, t.dir, func(ctx context.Context) error {
		if err := t.plugin.writeNote(ctx, t.dir, n); err != nil {
			return err
		}
		err := w.mountAt(ctx, t.dir)
		if err == nil {
			err = t.complete(ctx, w)
		}
		if err != nil {
			err = t.undoFailed(ctx, w.driver, secrets, err)
		}
		return t.settleNote(ctx, n, err)
	})
}

// settleNote writes the note of a mounted volume, or removes the note of one that could not be mounted. After an
// uncertain error the note stays.
func (t placement) settleNote(ctx context.Context, n note, err error) error {
	switch {
	case errors.Is(err, volume.ErrUncertain):
		return err
	case err != nil:
		if failed := t.plugin.removeNote(ctx, t.dir); failed != nil {
			return volume.AsUncertain(fmt.Errorf("%w (%w)", err, failed))
		}
		return err
	}
	n.Changing = false
	return volume.AsUncertain(t.plugin.writeNote(ctx, t.dir, n))
}

// complete verifies that a mount is at the directory, makes it read-only if it must be, and runs finish.
func (t placement) complete(ctx context.Context, w mounting) error {
	mounted, err := t.isMounted(ctx)
	switch {
	case err != nil:
		return err
	case !mounted:
		return volume.AsTransient(fmt.Errorf("%s: %w after a success of driver %s", t.dir, volume.ErrNotMounted, t.plugin.config.Driver))
	}
	if err := t.makeReadOnly(ctx, w); err != nil || w.finish == nil {
		return err
	}
	return w.finish(ctx, t.dir)
}

// makeReadOnly adds the flag ro to the mount of a read-only volume, if it lacks the flag.
func (t placement) makeReadOnly(ctx context.Context, w mounting) error {
	if !w.readOnly || !w.enforcesReadOnly {
		return nil
	}
	at, _, err := t.plugin.mounts.At(ctx, t.dir)
	if err != nil || at.Flags&mount.ReadOnly != 0 {
		return err
	}
	req := mount.Request{Target: t.dir, Options: []string{"ro"}, Remount: true}
	if err := t.plugin.config.Mounter.Mount(ctx, req); err != nil {
		return util.Transient(fmt.Errorf("make the mount of a read-only volume read-only: %w", err))
	}
	return nil
}

// undoFailed unmounts after a failed set-up. A CallError gets its kind; other errors keep theirs, unless the
// undo fails. If the cause is uncertain, or the driver was killed, it undoes nothing, and the error is uncertain: another
// process of the driver may still mount.
func (t placement) undoFailed(ctx context.Context, d *installed, secrets []string, cause error) error {
	var failed *CallError
	isCall := errors.As(cause, &failed)
	switch {
	case volume.KindOf(cause) == volume.Uncertain:
		return cause
	case isCall && failed.notStarted:
		return volume.AsTransient(cause)
	case ctx.Err() != nil, errors.Is(cause, ErrTimeout):
		return volume.AsUncertain(cause)
	}
	mounted, err := t.isMounted(ctx)
	if err == nil && mounted {
		err = t.undo(ctx, d, t.unmountCall(secrets, false))
	}
	switch {
	case err != nil:
		return volume.AsUncertain(fmt.Errorf("%w (undo: %w)", cause, err))
	case isCall:
		return volume.AsTransient(cause)
	}
	return cause
}

// undoInterrupted has the driver unmount after an interrupted call. If the volume is not mounted, a failure that the
// driver reports is ignored.
func (t placement) undoInterrupted(ctx context.Context, d *installed, n note, mounted bool) error {
	c := t.unmountCall(nil, n.Secret)
	var err error
	if mounted {
		err = t.undo(ctx, d, c)
	} else if err = t.callUnmount(ctx, d, c); isReported(ctx, err) {
		err = nil
	}
	if err != nil {
		return volume.AsUncertain(fmt.Errorf("undo an interrupted call: %w", err))
	}
	return nil
}

// isReported reports whether a driver has ended by itself, with a failure.
func isReported(ctx context.Context, err error) bool {
	var failed *CallError
	return errors.As(err, &failed) && !failed.notStarted && ctx.Err() == nil && !errors.Is(err, ErrTimeout)
}

// undo unmounts by the driver, and then removes the mounts that are left. The directory stays.
func (t placement) undo(ctx context.Context, d *installed, c call) error {
	if err := t.callUnmount(ctx, d, c); err != nil {
		return err
	}
	return t.plugin.mounts.Unmount(ctx, t.dir, util.KeepDirectory())
}

// unmountCall returns the call that unmounts. An error has neither the secrets nor, if hidden, the driver's output.
func (t placement) unmountCall(secrets []string, hidden bool) call {
	return call{operation: t.down, key: t.dir, args: []string{t.dir}, secrets: secrets, hidden: hidden}
}

// callUnmount makes the call that unmounts. A driver without the operation leaves that to the mounter.
func (t placement) callUnmount(ctx context.Context, d *installed, c call) error {
	_, err := t.plugin.call(ctx, d, c)
	return ignoreNotSupported(err)
}

// ensureUnmounted unmounts, as the only operation on the directory, and removes the directory and the note. The driver is
// called if the directory exists, also without a mount: the driver may hold other resources for the volume. Without a
// mount, no error of the driver keeps the directory from being removed, unless the driver was killed.
func (t placement) ensureUnmounted(ctx context.Context) error {
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	return t.plugin.mounts.Exclusively(ctx, t.dir, func(ctx context.Context, dir string) error {
		t := placement{t.plugin, dir, t.down}
		mounted, err := t.isMounted(ctx)
		exists := mounted
		if err == nil && !mounted {
			exists, err = isDirectory(ctx, dir)
		}
		if err != nil {
			return err
		}
		succeeded := false
		if exists {
			if succeeded, err = t.unmountByDriver(ctx, mounted); err != nil {
				return err
			}
		}
		if err := t.plugin.mounts.Unmount(ctx, dir); err != nil {
			if succeeded && mounted {
				err = volume.AsUncertain(err)
			}
			return err
		}
		return volume.AsUncertain(t.plugin.removeNote(ctx, dir))
	})
}

// unmountByDriver calls the driver to unmount, and reports whether it succeeded. During the call the note says that the
// volume is changing; the note stays if the driver succeeded, if it was killed, or if the mount is gone. A note that cannot
// be written, as on a full disk, does not keep the volume mounted.
func (t placement) unmountByDriver(ctx context.Context, mounted bool) (succeeded bool, err error) {
	p := t.plugin
	d, err := p.current(ctx)
	if err != nil {
		if !mounted && ctx.Err() == nil {
			return false, nil
		}
		return false, err
	}
	before, noted, err := p.readNote(ctx, t.dir)
	if err != nil || d.isUnsupported(t.down) {
		return false, err
	}
	changing := before
	changing.Changing = true
	isWritten := p.writeNote(ctx, t.dir, changing) == nil
	err = t.callUnmount(ctx, d, t.unmountCall(nil, before.Secret))
	if err == nil && !d.isUnsupported(t.down) {
		return true, nil
	}
	if t.mayHaveChanged(ctx, err, mounted) {
		return false, volume.AsUncertain(err)
	}
	if isWritten {
		if failed := t.restoreNote(ctx, before, noted); failed != nil {
			return false, volume.AsUncertain(errors.Join(err, failed))
		}
	}
	if !mounted && isReported(ctx, err) {
		return false, nil
	}
	return false, volume.AsTransient(err)
}

// mayHaveChanged reports whether the driver may have changed something in a call that unmounts and failed: it was killed, or
// the mount is gone.
func (t placement) mayHaveChanged(ctx context.Context, err error, mounted bool) bool {
	var failed *CallError
	switch {
	case isReported(ctx, err) && mounted:
		still, err := t.isMounted(ctx)
		return err != nil || !still
	case errors.As(err, &failed):
		return !failed.notStarted && !isReported(ctx, err)
	}
	return false
}

// restoreNote writes the note as it was before a call, or removes it if there was none.
func (t placement) restoreNote(ctx context.Context, before note, noted bool) error {
	if noted {
		return t.plugin.writeNote(ctx, t.dir, before)
	}
	return t.plugin.removeNote(ctx, t.dir)
}

// isMounted reports whether a mount is at the directory.
func (t placement) isMounted(ctx context.Context) (bool, error) {
	err := t.plugin.mounts.CheckMounted(ctx, t.dir)
	if errors.Is(err, volume.ErrNotMounted) {
		return false, nil
	}
	return err == nil, err
}

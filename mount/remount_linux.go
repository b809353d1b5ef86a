package mount

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// remount changes the flags of the mount at the target, and of no other.
func (m *Mounter) remount(ctx context.Context, c *claim, req Request, o Options) error {
	t, err := m.openTarget(ctx, req.Target)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	defer t.close()
	if !t.mounted {
		return ErrNotMounted
	}
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	if c.calm && ctx.Done() != nil && !m.isCalmAt(t.fd) {
		return errNotCalm
	}
	if !c.take() {
		return errAbandoned
	}
	return m.changeFlags(t.fd, o)
}

// changeFlags changes flags and verifies them; a difference is undone.
func (m *Mounter) changeFlags(fd int, o Options) error {
	before, err := statusOf(fd)
	if err != nil {
		return err
	}
	if err := m.setFlags(fd, o); err != nil {
		return err
	}
	now, err := statusOf(fd)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	if err := now.verify(o); err != nil {
		if undo := m.setFlags(fd, exactly(before.flags)); undo != nil {
			return fmt.Errorf("%w: %w (undoing it: %w)", ErrUncertain, err, undo)
		}
		return err
	}
	return nil
}

// exactly are the options that make a mount's flags these.
func exactly(flags Flags) Options {
	var all Flags
	for _, k := range kernelFlags {
		all |= k.flag
	}
	return Options{Set: flags, Clear: all &^ flags}
}

func (m *Mounter) setFlags(fd int, o Options) error {
	tier, err := m.tier()
	if err != nil {
		return err
	}
	if tier != TierClassic {
		attr := o.setattr()
		err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr)
		if m.config.Tier != TierAuto || !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	before, err := statusOf(fd)
	if err != nil {
		return err
	}
	return unix.Mount("", procFD(fd), "", unix.MS_REMOUNT|unix.MS_BIND|o.Apply(before.flags).ms(), "")
}

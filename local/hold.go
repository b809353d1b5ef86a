package local

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/loop"
)

// A hold is a loop device on a volume's device. It keeps the device from vanishing while the
// volume is mapped, also while this program does not run, and it is the device of a pod that
// only reads: it is not writable. It is found by its name. A hold that another process still
// has open when it is detached is no hold any more: it ends when that process closes it.
const holdPrefix = "volumekit "

func (p *Plugin) holdName(volumeName string) string {
	sum := sha256.Sum256([]byte(p.host.Root() + "\x00" + volumeName))
	return fmt.Sprintf("%s%x", holdPrefix, sum[:20])
}

// hold returns the hold of the device, and creates a missing one.
func (v *deviceVolume) hold(ctx context.Context, d *disk.Device, inUse bool) (loop.Device, error) {
	name := v.plugin.holdName(v.name)
	held, err := holdsNamed(ctx, name)
	if err != nil {
		return loop.Device{}, v.failed(util.Transient(err))
	}
	number := d.Info().Number
	for _, h := range held {
		if h.BackingDevice == number {
			return h, nil
		}
		if inUse {
			return loop.Device{}, v.failed(fmt.Errorf("%w: %s is held", ErrDeviceSwapped, h.Backing))
		}
		if err := detachHold(ctx, h); err != nil {
			return loop.Device{}, v.failed(util.Transient(err))
		}
	}
	if used, err := d.InUse(ctx, name); err != nil || used && !inUse {
		return loop.Device{}, v.failed(util.Transient(errors.Join(err, ErrDeviceInUse)))
	}
	h, err := loop.Attach(ctx, loop.Config{File: d.File(), Name: name, ReadOnly: true})
	if err != nil {
		return loop.Device{}, v.failed(util.Transient(err))
	}
	return h, nil
}

// holdsNamed returns the loop devices with a name that are on disks: a hold is never on a
// file.
func holdsNamed(ctx context.Context, name string) ([]loop.Device, error) {
	held, err := loop.Named(ctx, name)
	return slices.DeleteFunc(held, func(h loop.Device) bool { return h.BackingDevice == 0 }), err
}

// detachHold detaches a hold. It is idempotent.
func detachHold(ctx context.Context, h loop.Device) error {
	if err := loop.Detach(ctx, h); !errors.Is(err, loop.ErrReplaced) {
		return err
	}
	return nil
}

// release detaches the hold of a volume's device.
func (p *Plugin) release(ctx context.Context, volumeName string) error {
	held, err := holdsNamed(ctx, p.holdName(volumeName))
	for _, h := range held {
		err = errors.Join(err, detachHold(ctx, h))
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return util.Transient(err)
	}
	return nil
}

// growHold gives the hold the device's new size.
func (v *deviceVolume) growHold(ctx context.Context) error {
	held, err := holdsNamed(ctx, v.plugin.holdName(v.name))
	for _, h := range held {
		err = errors.Join(err, loop.Resize(ctx, h))
	}
	if err != nil {
		return v.failed(util.Transient(err))
	}
	return nil
}

// isHold reports whether a path is a hold of the volume's.
func (p *Plugin) isHold(ctx context.Context, device, volumeName string) bool {
	if !isLoop(device) {
		return false
	}
	status, err := loop.Status(ctx, device)
	return err == nil && !status.Ending && status.Name == p.holdName(volumeName)
}

func isLoop(device string) bool { return strings.HasPrefix(device, "/dev/loop") }

// isHeldFor reports whether the volume has a hold. On systems without loop devices it
// returns false.
func (p *Plugin) isHeldFor(ctx context.Context, volumeName string) (bool, error) {
	if rec, err := p.records.read(volumeName); err == nil && (rec == nil || rec.State != stateBlock) {
		return false, nil
	}
	held, err := holdsNamed(ctx, p.holdName(volumeName))
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	return len(held) > 0, err
}

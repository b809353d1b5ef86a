package local

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/loop"
)

// A hold is a loop device on a volume's device. It keeps the device from vanishing
// while the volume is mapped, also while no process of ours runs, and it is what a
// pod gets that only reads: it cannot be written to. It is found again by its name. One
// that somebody still had open when it was let go of is no hold any more: it ends when
// they do.
const holdPrefix = "volumekit "

func (p *Plugin) holdName(volumeName string) string {
	sum := sha256.Sum256([]byte(p.host.Root() + "\x00" + volumeName))
	return fmt.Sprintf("%s%x", holdPrefix, sum[:20])
}

// hold returns the hold of the device, which it makes if there is none.
func (v *deviceVolume) hold(d disk, inUse bool) (loop.Device, error) {
	name := v.plugin.holdName(v.name)
	held, err := loop.Named(name)
	if err != nil {
		return loop.Device{}, v.failed(util.Transient(err))
	}
	facts := d.facts()
	for _, h := range held {
		if h.BackingDevice == facts.number {
			return h, nil
		}
		if inUse {
			return loop.Device{}, v.failed(fmt.Errorf("%w: %s is held", ErrDeviceSwapped, h.Backing))
		}
		if err := loop.Detach(h); err != nil {
			return loop.Device{}, v.failed(util.Transient(err))
		}
	}
	if used, err := d.inUse(name); err != nil || used && !inUse {
		return loop.Device{}, v.failed(util.Transient(errors.Join(err, ErrDeviceInUse)))
	}
	h, err := loop.Attach(loop.Config{File: d.file(), Name: name, ReadOnly: true})
	if err != nil {
		return loop.Device{}, v.failed(util.Transient(err))
	}
	return h, nil
}

// release lets go of a volume's device.
func (p *Plugin) release(volumeName string) error {
	held, err := loop.Named(p.holdName(volumeName))
	for _, h := range held {
		err = errors.Join(err, loop.Detach(h))
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return util.Transient(err)
	}
	return nil
}

// growHold gives the hold the device's new size.
func (v *deviceVolume) growHold() error {
	held, err := loop.Named(v.plugin.holdName(v.name))
	for _, h := range held {
		err = errors.Join(err, loop.Resize(h))
	}
	if err != nil {
		return v.failed(util.Transient(err))
	}
	return nil
}

// isHold reports whether a path is a hold of the volume's.
func (p *Plugin) isHold(device, volumeName string) bool {
	if !isLoop(device) {
		return false
	}
	status, err := loop.Status(device)
	return err == nil && !status.Ending && status.Name == p.holdName(volumeName)
}

func isLoop(device string) bool { return strings.HasPrefix(device, "/dev/loop") }

// isHeldFor reports whether the volume has a hold. Where there are no loop devices it
// has none.
func (p *Plugin) isHeldFor(volumeName string) (bool, error) {
	if rec, err := p.records.read(volumeName); err == nil && (rec == nil || rec.State != stateBlock) {
		return false, nil
	}
	held, err := loop.Named(p.holdName(volumeName))
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	return len(held) > 0, err
}

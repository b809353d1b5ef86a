package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
	peer "k8s.io/mount-utils"
)

// RequiresFSResize returns true: what is on a device has to be grown with it.
func (p *Plugin) RequiresFSResize() bool { return true }

// NodeExpand grows the file system (ext3, ext4, xfs, btrfs) to the size of the device
// on which it is mounted. It is false without an error if the device is smaller than
// req.NewSize, nothing is mounted, or that is read-only. Of a raw device there is
// nothing to grow: it reports the device's size. A directory has no size of its own:
// that is [volume.ErrNotSupported].
//
// If ctx ends while it is at work the programs that do it are killed, and the error
// wraps [volume.ErrUncertain]: the file system is sound, of one size or the other, and
// the same call goes on.
func (p *Plugin) NodeExpand(ctx context.Context, req volume.NodeResizeOptions) (bool, error) {
	if err := quantity.Check(&req.NewSize); err != nil {
		return false, field.Invalid(field.NewPath("req", "newSize"), quantity.Text(&req.NewSize), err.Error())
	}
	v, err := p.deviceVolume(req.Spec)
	if err != nil {
		return false, err
	}
	dir, err := p.pluginPath(mountsDir, v.name)
	if err != nil {
		return false, err
	}
	grown := make(chan bool, 1)
	err = inTime(ctx, func() error {
		return p.mounts.Exclusively(ctx, dir, func(dir string) error {
			is, err := v.grow(ctx, dir, req)
			grown <- is
			return err
		})
	})
	select {
	case is := <-grown:
		return is && err == nil, err
	default:
		return false, err
	}
}

func (v *deviceVolume) grow(ctx context.Context, dir string, req volume.NodeResizeOptions) (bool, error) {
	_, is, err := v.look()
	if err != nil {
		return false, err
	}
	if !is {
		return false, fmt.Errorf("expand local volume %s, a directory: %w", v.name, volume.ErrNotSupported)
	}
	d, err := v.open()
	if err != nil {
		return false, err
	}
	defer func() { _ = d.Close() }()
	facts := d.facts()
	if facts.size < req.NewSize.Value() {
		return false, nil
	}
	if req.Spec.IsBlock() {
		return true, v.growHold()
	}
	at, _, err := v.plugin.mounts.At(ctx, dir)
	if errors.Is(err, volume.ErrNotMounted) || err == nil && at.Flags&mount.ReadOnly != 0 {
		return false, nil
	}
	if err == nil {
		err = v.checkSource(at, facts)
	}
	if err != nil {
		return false, err
	}
	return v.resize(ctx, d, at)
}

func (v *deviceVolume) resize(ctx context.Context, d disk, at mount.Info) (bool, error) {
	if at.FSType == "ext2" {
		return false, v.failed(fmt.Errorf("grow ext2 while it is mounted: %w", volume.ErrNotSupported))
	}
	// What is mounted is known: nobody has to look at the device.
	programs := &programs{ctx: ctx, run: v.plugin.run, disk: d, fsType: at.FSType}
	done, err := peer.NewResizeFs(programs).Resize(d.facts().node, at.Mountpoint)
	switch {
	case err != nil && ctx.Err() != nil:
		return false, v.failed(fmt.Errorf("%w: %w: %w", volume.ErrUncertain, context.Cause(ctx), err))
	case err != nil:
		return false, v.failed(util.Transient(err))
	}
	return done, nil
}

package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeExpand grows the file system (ext3, ext4, xfs, btrfs) to the size of the device on
// which it is mounted. It returns false and no error if the device is smaller than
// req.NewSize, nothing is mounted, or the mount is read-only. For a raw device it reports
// whether the device has the size. A directory has no size of its own:
// [volume.ErrNotSupported].
//
// If ctx ends while a program grows the file system the program is killed, and the error
// wraps [volume.ErrUncertain]: the file system is sound, with the old or the new size, and
// the same call continues.
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
	err = p.mounts.Exclusively(ctx, dir, func(ctx context.Context, dir string) error {
		is, err := v.grow(ctx, dir, req)
		grown <- is
		return err
	})
	select {
	case is := <-grown:
		return is && err == nil, err
	default:
		return false, err
	}
}

func (v *deviceVolume) grow(ctx context.Context, dir string, req volume.NodeResizeOptions) (bool, error) {
	_, isDevice, err := v.findNode()
	if err != nil {
		return false, err
	}
	if !isDevice {
		return false, fmt.Errorf("expand local volume %s, a directory: %w", v.name, volume.ErrNotSupported)
	}
	grown := make(chan bool, 1)
	err = v.use(ctx, func(ctx context.Context, d *disk.Device) error {
		is, err := v.growDevice(ctx, dir, d, req)
		grown <- is
		return err
	})
	return err == nil && <-grown, err
}

func (v *deviceVolume) growDevice(ctx context.Context, dir string, d *disk.Device, req volume.NodeResizeOptions) (bool, error) {
	info := d.Info()
	if info.Size < req.NewSize.Value() {
		return false, nil
	}
	if req.Spec.IsBlock() {
		return true, v.growHold(ctx)
	}
	at, _, err := v.plugin.mounts.At(ctx, dir)
	if errors.Is(err, volume.ErrNotMounted) || err == nil && at.Flags&mount.ReadOnly != 0 {
		return false, nil
	}
	if err == nil {
		err = v.checkSource(at, info)
	}
	if err != nil {
		return false, err
	}
	return v.growFileSystem(ctx, d, at)
}

func (v *deviceVolume) growFileSystem(ctx context.Context, d *disk.Device, at mount.Info) (bool, error) {
	err := d.Grow(ctx, at.FSType, at.Mountpoint)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errors.ErrUnsupported):
		err = fmt.Errorf("%w: %w", volume.ErrNotSupported, err)
	case errors.Is(err, mount.ErrUncertain):
		err = volume.AsUncertain(err)
	default:
		err = util.Transient(err)
	}
	return false, v.failed(err)
}

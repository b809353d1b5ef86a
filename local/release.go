package local

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
)

// VerifiesDeviceUse implements [volume.DeviceUseVolumePlugin].
func (p *Plugin) VerifiesDeviceUse() bool { return true }

// checkReleased fails if the kernel still has the file system that was mounted at dir. A
// device that has been removed or replaced is not the volume's any more.
func (p *Plugin) checkReleased(ctx context.Context, dir string) error {
	name := path.Base(dir)
	if own, err := p.pluginPath(mountsDir, name); err != nil || own != dir {
		return nil
	}
	rec, err := p.records.read(name)
	if err != nil || rec == nil || rec.State != stateMounted {
		return nil
	}
	node, k, err := p.nodeOf(rec)
	if err != nil || k != kindDevice {
		return nil
	}
	var asked atomic.Bool
	err = p.disks.Use(ctx, node, func(ctx context.Context, d *disk.Device) error {
		if !rec.Disk.IsSame(d.Info().Identity) {
			return nil
		}
		asked.Store(true)
		used, err := d.InUse(ctx, "")
		if err == nil && used {
			used, err = p.isHidden(ctx, d.Info())
		}
		if err == nil && used {
			err = fmt.Errorf("%w: the file system of %s is unmounted, and still in use", ErrDeviceInUse, node)
		}
		return err
	})
	if err == nil || !asked.Load() && ctx.Err() == nil {
		return nil
	}
	return util.Transient(fmt.Errorf("unmount %s: %w", dir, err))
}

// nodeOf returns the node at the end of a record's path.
func (p *Plugin) nodeOf(rec *record) (string, kind, error) {
	at, err := p.locate(rec.Path)
	if err != nil {
		return "", kindOther, err
	}
	return p.follow(at)
}

// isHidden reports whether a device is in use without a visible mount point. With one, its
// creator is responsible for the use.
func (p *Plugin) isHidden(ctx context.Context, info disk.Info) (bool, error) {
	list, err := p.config.Mounter.List(ctx)
	return !slices.ContainsFunc(list, func(m mount.Info) bool {
		return m.Source == info.Path || m.Major != 0 && m.Major == info.Major && m.Minor == info.Minor
	}), err
}

// mountAgain mounts the file system of a device in use, if it can be the volume's own after
// its unmount: a detached mount with an open file, or another mount namespace, keeps it
// alive. The kernel then mounts the same file system again, and refuses any other. So it is
// neither probed, nor checked, nor formatted.
func (v *deviceVolume) mountAgain(ctx context.Context, dir string, d *disk.Device, rec *record) error {
	info, inUse := d.Info(), util.Transient(ErrDeviceInUse)
	if rec == nil || rec.State != stateMounted || !rec.isOf(v.uid) || !isSameDevice(rec.Disk, info.Identity) || v.fsType != "" && v.fsType != rec.FSType {
		return inUse
	}
	if below, err := d.IsBelowLoop(ctx); err != nil || below {
		return inUse // mapped for another volume
	}
	if hidden, err := v.plugin.isHidden(ctx, info); err != nil || !hidden {
		return inUse
	}
	err := v.plugin.mounts.Mount(ctx, dir, mount.Request{Source: info.Path, FSType: rec.FSType, Options: v.mountOptions(info.ReadOnly)})
	switch {
	case err == nil:
		return v.checkMountedAgain(context.WithoutCancel(ctx), dir, info)
	case volume.KindOf(err) == volume.Uncertain:
		return err
	}
	return fmt.Errorf("%w: %w", inUse, err)
}

// isSameDevice reports whether a recorded device has existed without interruption since.
func isSameDevice(recorded, now disk.Identity) bool {
	return recorded.IsSame(now) && recorded.Boot != "" && recorded.Boot == now.Boot && recorded.Sequence == now.Sequence
}

// checkMountedAgain undoes the mount if the node was replaced by another device's just
// before.
func (v *deviceVolume) checkMountedAgain(ctx context.Context, dir string, info disk.Info) error {
	at, _, err := v.plugin.mounts.At(ctx, dir)
	if err != nil {
		return volume.AsUncertain(err)
	}
	if err := v.checkSource(at, info); err != nil {
		return errors.Join(err, v.plugin.mounts.Unmount(ctx, dir))
	}
	return nil
}

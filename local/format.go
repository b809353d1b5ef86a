package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// A formatting formats or checks a device and mounts it: the mounter of a podvolume.Mounts,
// which creates the directory, and removes it after an error.
type formatting struct {
	mount.Interface
	volume *deviceVolume
	device *disk.Device
	step   step
	record record  // of the volume from now on
	before *record // nil: none
	// final is an error that a retry meets again.
	final error
}

// Mount implements mount.Interface.
func (f *formatting) Mount(ctx context.Context, req mount.Request) error {
	err := f.prepare(ctx, slices.Contains(req.Options, "ro"))
	if err == nil {
		err = f.recordMounted(ctx)
	}
	if err == nil {
		err = f.device.Mount(ctx, req)
	}
	if isFinal(err) {
		f.final = err
	}
	return err
}

// isFinal reports whether an error stays until the device is changed.
func isFinal(err error) bool {
	return slices.ContainsFunc([]error{
		ErrDeviceSwapped, ErrDeviceTooSmall, ErrFileSystemDamaged, ErrFileSystemDirty, ErrDuplicateFileSystem,
	}, func(final error) bool { return errors.Is(err, final) })
}

func (f *formatting) prepare(ctx context.Context, readOnly bool) error {
	switch {
	case f.step.format:
		return f.format(ctx)
	case readOnly:
		return nil
	}
	_, err := f.device.Repair(ctx, f.step.fsType)
	return disk.IgnoreToolFailure(err)
}

// format records the format before the first write: the record tells the remains of this
// volume's format from those of other volumes.
func (f *formatting) format(ctx context.Context) error {
	records, name := f.volume.plugin.records, f.volume.name
	begun := false
	err := f.device.Format(ctx, disk.Format{
		FSType: f.step.fsType, UUID: f.record.FSUUID, Replace: f.step.replace,
		Begin: func() error { begun = true; return records.write(name, f.record) },
	})
	if err == nil || errors.Is(err, mount.ErrUncertain) || !begun {
		return err
	}
	return errors.Join(err, f.revertRecord())
}

// revertRecord removes the record of a format that has left the device blank: data that
// other programs write later must not look like remains.
func (f *formatting) revertRecord() error {
	records, name := f.volume.plugin.records, f.volume.name
	if f.before == nil || f.before.State == stateFormatting {
		return records.remove(name)
	}
	return records.write(name, *f.before)
}

// errNotPlanned: the content of the device has changed since the plan.
var errNotPlanned = errors.New("the device does not carry the file system that was planned")

// recordMounted verifies the file system, and records the device as the volume's.
func (f *formatting) recordMounted(ctx context.Context) error {
	c, err := f.device.Probe(ctx)
	if err != nil {
		return err
	}
	there, ok := c.FileSystem()
	if !ok || there.UUID != f.record.FSUUID || there.Name != f.step.fsType {
		return fmt.Errorf("%w: %v", errNotPlanned, c.Found)
	}
	if err := f.device.CheckNode(ctx); err != nil {
		return err
	}
	rec := f.record
	rec.State = stateMounted
	if f.before.equals(rec) {
		return nil
	}
	return f.volume.plugin.records.write(f.volume.name, rec)
}

// mountFormatted mounts a device in the directory dir, where nothing is mounted.
func (v *deviceVolume) mountFormatted(ctx context.Context, dir string, d *disk.Device, s step, rec *record) error {
	info := d.Info()
	if err := v.plugin.records.disown(v.name, info.Identity); err != nil {
		return util.Transient(err)
	}
	f := &formatting{Interface: v.plugin.config.Mounter, volume: v, device: d, step: s, before: rec}
	f.record = record{State: stateFormatting, UID: v.uid, Path: v.path, FSType: s.fsType, FSUUID: s.uuid, Disk: info.Identity}
	if s.format {
		f.record.FSUUID = disk.NewUUID()
	}
	if v.uid == "" && rec != nil {
		f.record.UID = rec.UID
	}
	req := mount.Request{Source: info.Path, FSType: s.fsType, Options: v.mountOptions(info.ReadOnly)}
	err := podvolume.NewMounts(v.plugin.host, f).Mount(ctx, dir, req)
	if f.final != nil && volume.KindOf(err) == volume.Transient {
		return f.final
	}
	return err
}

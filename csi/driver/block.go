package driver

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
)

// mapper returns the mapper of a raw device at a path, and the paths of its device.
func (d *driver) mapper(spec *volume.Spec, at string, s stageRecord) (volume.BlockVolumeMapper, volume.BlockVolumePaths, error) {
	paths := volume.BlockVolumePaths{DevicePath: s.Device, StagingPath: s.BlockStage}
	m, err := d.block.NewBlockVolumeMapper(spec, podAt(at))
	if err == nil {
		paths.GlobalMapPath, err = m.GetGlobalMapPath(spec)
	}
	return m, paths, err
}

// setUpDevice prepares the raw device for the node.
func (d *driver) setUpDevice(ctx context.Context, spec *volume.Spec, s *stageRecord) error {
	m, paths, err := d.mapper(spec, s.Path, *s)
	if err != nil {
		return err
	}
	s.BlockStage, err = m.SetUpDevice(ctx, paths)
	return err
}

var errNoDevice = errors.New("the plugin has returned no path of a device")

// publishDevice maps the device, and binds it on a file at the target path.
func (d *driver) publishDevice(ctx context.Context, spec *volume.Spec, p targetRecord, s stageRecord) error {
	spec.ReadOnly = spec.ReadOnly || p.ReadOnly // a mount flag does not protect a device
	m, paths, err := d.mapper(spec, p.Path, s)
	if err != nil {
		return err
	}
	device, err := m.MapPodDevice(ctx, paths)
	if err != nil {
		return d.afterFailedMap(ctx, p.Path, err)
	}
	if err = d.bindDevice(ctx, cmp.Or(device, paths.StagingPath, paths.DevicePath), p.Path); err == nil || volume.KindOf(err) == volume.Uncertain {
		return err
	}
	if failed := d.unmapDevice(ctx, spec.Name(), p.Path); failed != nil {
		return volume.AsUncertain(errors.Join(err, failed))
	}
	return d.afterFailedMap(ctx, p.Path, err)
}

// bindDevice binds a mapped device on a file at the target path.
func (d *driver) bindDevice(ctx context.Context, device, target string) error {
	if device == "" {
		return errNoDevice
	}
	return d.mounts.Exclusively(ctx, target, func(ctx context.Context, target string) error {
		return d.mounts.MountFile(ctx, target, mount.Request{Source: device, DeviceFile: true})
	})
}

// afterFailedMap returns the error of a device that is not mapped, after it has removed the directories that the plugin
// may have made.
func (d *driver) afterFailedMap(ctx context.Context, target string, err error) error {
	if volume.KindOf(err) == volume.Uncertain {
		return err
	}
	if failed := d.removePodDirs(ctx, target); failed != nil {
		return volume.AsUncertain(errors.Join(err, failed))
	}
	return err
}

// unpublishDevice undoes publishDevice.
func (d *driver) unpublishDevice(ctx context.Context, id volumeID, target string) error {
	err := d.mounts.Exclusively(ctx, target, func(ctx context.Context, target string) error {
		return d.mounts.Unmount(ctx, target, util.AlsoFile())
	})
	if err != nil {
		return err
	}
	if err := d.unmapDevice(ctx, id.name, target); err != nil {
		return err
	}
	return d.removePodDirs(ctx, target)
}

// unmapDevice undoes MapPodDevice for a target path.
func (d *driver) unmapDevice(ctx context.Context, name, target string) error {
	unmapper, err := d.block.NewBlockVolumeUnmapper(name, podAt(target).UID)
	if err != nil {
		return err
	}
	return unmapper.UnmapPodDevice(ctx)
}

// removePodDirs removes the empty directories of the plugin's pod for a target path: each path has another pod.
func (d *driver) removePodDirs(ctx context.Context, target string) error {
	host := d.config.Host
	dir, err := host.PodVolumeDeviceDir(podAt(target).UID, d.config.Plugin.GetPluginName())
	if err != nil {
		return err
	}
	return volume.AsTransient(util.RemoveEmptyParents(ctx, filepath.Join(host.Root(), "pods"), filepath.Join(dir, "device")))
}

// tearDownDevice undoes setUpDevice.
func (d *driver) tearDownDevice(ctx context.Context, id volumeID, rec *nodeRecord) error {
	spec, err := described{id, rec.Source}.spec(use{record: rec.Staged.Usage}.usage())
	if err != nil {
		return err
	}
	unmapper, err := d.block.NewBlockVolumeUnmapper(id.name, podAt(rec.Staged.Path).UID)
	if err != nil {
		return err
	}
	paths := volume.BlockVolumePaths{DevicePath: rec.Staged.Device, StagingPath: rec.Staged.BlockStage}
	if paths.GlobalMapPath, err = unmapper.GetGlobalMapPath(spec); err != nil {
		return err
	}
	return unmapper.TearDownDevice(ctx, paths)
}

// isMapped reports whether the plugin has mapped a raw device for a target path, also one that it cannot
// describe any more.
func (d *driver) isMapped(ctx context.Context, id volumeID, target string) (bool, error) {
	pod := podAt(target).UID
	unmapper, err := d.block.NewBlockVolumeUnmapper(id.name, pod)
	if err != nil {
		return false, err
	}
	_, err = d.block.ConstructBlockVolumeSpec(ctx, pod, id.name, filepath.Join(unmapper.GetPodDeviceMapPath()))
	switch {
	case err == nil, errors.Is(err, volume.ErrUncertain) && ctx.Err() == nil:
		return true, nil
	case errors.Is(err, volume.ErrNotMounted):
		return false, nil
	}
	return false, err
}

package manager

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/volume"
)

func (j job) mapper() (volume.BlockVolumeMapper, error) {
	able, err := blockPlugin(j.plugin)
	if err != nil {
		return nil, err
	}
	return able.NewBlockVolumeMapper(j.spec, j.pod)
}

func (j job) unmapper(key podKey) (volume.BlockVolumeUnmapper, error) {
	able, err := blockPlugin(j.plugin)
	if err != nil {
		return nil, err
	}
	return able.NewBlockVolumeUnmapper(key.name, key.pod)
}

// blockVolume is for whom the volume is mapped, or the last for whom it was.
func (j job) blockVolume() (volume.BlockVolume, error) {
	if j.pod == nil {
		return j.unmapper(j.lastPod)
	}
	return j.mapper()
}

func blockPlugin(plugin volume.VolumePlugin) (volume.BlockVolumePlugin, error) {
	able, ok := volume.As[volume.BlockVolumePlugin](plugin)
	if !ok {
		return nil, fmt.Errorf("%s has no block devices: %w", plugin.GetPluginName(), volume.ErrNotSupported)
	}
	return able, nil
}

// setUpDevice is mountDevice for a volume that is a device.
func (m *Manager) setUpDevice(ctx context.Context, j job) error {
	mapper, err := j.mapper()
	if err != nil {
		return err
	}
	_, err = mapper.SetUpDevice(ctx)
	return err
}

func (m *Manager) mapDevice(ctx context.Context, j job) (path string, err error) {
	mapper, err := j.mapper()
	if err != nil {
		return "", err
	}
	return mapper.MapPodDevice(ctx)
}

func (m *Manager) unmapDevice(ctx context.Context, j job) error {
	unmapper, err := j.unmapper(j.operation.pod)
	if err != nil {
		return err
	}
	if err := unmapper.UnmapPodDevice(ctx); err != nil {
		return err
	}
	dir, name := unmapper.GetPodDeviceMapPath()
	return m.disk.tidy(dir + "/" + name)
}

func (m *Manager) tearDownDevice(ctx context.Context, j job) error {
	unmapper, err := j.unmapper(j.lastPod)
	if err != nil {
		return err
	}
	return unmapper.TearDownDevice(ctx, j.deviceMountPath, j.devicePath)
}

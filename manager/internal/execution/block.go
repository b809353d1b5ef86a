package execution

import (
	"cmp"
	"context"

	"github.com/volumekit/volumekit/manager/internal/ability"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/volume"
)

// mapper returns the mapper of the job's pod.
func (j Job) mapper() (volume.BlockVolumeMapper, error) {
	able, err := ability.Block(j.Plugin)
	if err != nil {
		return nil, err
	}
	return able.NewBlockVolumeMapper(j.Spec, j.ForPod)
}

// unmapper returns the unmapper of a pod.
func (j Job) unmapper(key naming.PodKey) (volume.BlockVolumeUnmapper, error) {
	able, err := ability.Block(j.Plugin)
	if err != nil {
		return nil, err
	}
	return able.NewBlockVolumeUnmapper(key.Name, key.Pod)
}

// blockPaths returns the known paths of the volume's device.
func (j Job) blockPaths() volume.BlockVolumePaths {
	return volume.BlockVolumePaths{
		DevicePath: j.DevicePath, GlobalMapPath: j.DeviceMountPath, StagingPath: j.Before.StagePath,
	}
}

// setUpDevice is mountDevice for a block volume.
func setUpDevice(ctx context.Context, j Job) (stagePath string, err error) {
	mapper, err := j.mapper()
	if err != nil {
		return "", err
	}
	return mapper.SetUpDevice(ctx, j.blockPaths())
}

// mapDevice makes a block device available in the pod and returns its path.
func mapDevice(ctx context.Context, j Job) (path string, err error) {
	mapper, err := j.mapper()
	if err != nil {
		return "", err
	}
	path, err = mapper.MapPodDevice(ctx, j.blockPaths())
	return cmp.Or(path, j.Before.StagePath, j.DevicePath), err // a plugin without a path has the device where it was staged
}

// unmapDevice is tearDown for a block volume.
func (r *Runner) unmapDevice(ctx context.Context, j Job) error {
	unmapper, err := j.unmapper(j.Operation.Pod)
	if err != nil {
		return err
	}
	if err := unmapper.UnmapPodDevice(ctx); err != nil {
		return err
	}
	dir, name := unmapper.GetPodDeviceMapPath()
	return r.Disk.RemoveEmptyParents(ctx, dir+"/"+name)
}

// tearDownDevice is unmountDevice for a block volume.
func tearDownDevice(ctx context.Context, j Job) error {
	unmapper, err := j.unmapper(j.LastPod)
	if err != nil {
		return err
	}
	return unmapper.TearDownDevice(ctx, j.blockPaths())
}

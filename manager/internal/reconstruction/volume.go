package reconstruction

import (
	"context"
	"errors"

	"github.com/volumekit/volumekit/manager/internal/ability"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// A Volume is the result of reconstructing the volume at one path.
type Volume struct {
	Found  poddirs.Volume
	Unique v1.UniqueVolumeName
	Actual *actual.Volume
	Err    error
	Scope  volume.LeftoverScope // with Err: the plugin's scope of the volume
}

// reconstructVolume reconstructs the volume by its plugin.
func reconstructVolume(ctx context.Context, plugin volume.VolumePlugin, f poddirs.Volume) (v *actual.Volume, _ v1.UniqueVolumeName, err error) {
	defer plugincall.RecoverPanic(&err)
	key := naming.PodKey{Pod: f.Pod, Name: f.Name}
	v = &actual.Volume{
		Plugin: plugin.GetPluginName(), Name: f.Name, LastPod: key, Traits: naming.Traits{Block: f.Block},
		Pods: naming.PodMap[*actual.Pod]{{Key: key, Value: &actual.Pod{State: actual.Uncertain, Block: f.Block}}},
	}
	found, err := constructVolume(ctx, plugin, f)
	if errors.Is(err, volume.ErrNotMounted) || errors.Is(err, volume.ErrUncertain) && isForOnePod(plugin) && !f.Block {
		// A set-up that was killed leaves a directory without a mount, or a part of a volume. The
		// plugin tears it down.
		return v, naming.UniqueNameInPod(v.Plugin, f.Name, f.Pod), nil
	}
	if err != nil {
		return nil, "", err
	}
	v.Spec, v.DevicePath, v.StagePath = found.Spec, found.DevicePath, found.StagingPath
	if v.Name, err = plugin.GetVolumeName(v.Spec); err == nil {
		v.Traits, err = naming.TraitsOf(ctx, plugin, v.Spec)
	}
	if err == nil {
		err = assumeSharedUncertain(v, plugin)
	}
	return v, v.Traits.UniqueName(v.Plugin, v.Name, f.Pod), err
}

// isForOnePod reports whether a volume of the plugin exists on this node only in its pod, so
// that its names are enough to tear it down.
func isForOnePod(plugin volume.VolumePlugin) bool {
	_, attachable := volume.As[volume.AttachableVolumePlugin](plugin)
	_, onDevice := volume.As[volume.DeviceMountableVolumePlugin](plugin)
	return !attachable && !onDevice
}

// constructVolume queries the plugin for the specification of the volume in a directory.
func constructVolume(ctx context.Context, plugin volume.VolumePlugin, f poddirs.Volume) (volume.ReconstructedVolume, error) {
	if !f.Block {
		return plugin.ConstructVolumeSpec(ctx, podvolume.ViewedName(f.Name), f.Path)
	}
	able, err := ability.Block(plugin)
	if err != nil {
		return volume.ReconstructedVolume{}, err
	}
	return able.ConstructBlockVolumeSpec(ctx, f.Pod, f.Name, f.Path)
}

// assumeSharedUncertain makes the shared steps uncertain, with the plugin's device mount path.
func assumeSharedUncertain(v *actual.Volume, plugin volume.VolumePlugin) error {
	v.AssumeUncertain()
	if !v.Traits.DeviceMountable {
		return nil
	}
	able, err := ability.DeviceMountable(plugin)
	if err != nil {
		return err
	}
	mounter, err := able.NewDeviceMounter()
	if err != nil {
		return err
	}
	v.DeviceMountPath, err = mounter.GetDeviceMountPath(v.Spec)
	return err
}

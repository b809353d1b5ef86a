package ability

import (
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// A SharedVolume is a volume that its plugin mounts, or sets up as a device, once for all pods.
type SharedVolume struct {
	Plugin  volume.VolumePlugin
	Spec    *volume.Spec
	Block   bool
	Pod     *v1.Pod       // a pod that needs the volume, or nil
	LastPod naming.PodKey // without Pod: the last pod for which the volume was set up
}

// DeviceMountPath returns the plugin's device mount path of the volume; of a block volume, its
// global map path.
func (s SharedVolume) DeviceMountPath() (path string, err error) {
	defer plugincall.RecoverPanic(&err)
	if s.Block {
		device, err := s.blockVolume()
		if err != nil {
			return "", err
		}
		return device.GetGlobalMapPath(s.Spec)
	}
	able, err := DeviceMountable(s.Plugin)
	if err != nil {
		return "", err
	}
	mounter, err := able.NewDeviceMounter()
	if err != nil {
		return "", err
	}
	return mounter.GetDeviceMountPath(s.Spec)
}

// blockVolume returns the block volume of the pod, or of the last pod if no pod needs the volume.
func (s SharedVolume) blockVolume() (volume.BlockVolume, error) {
	able, err := Block(s.Plugin)
	if err != nil {
		return nil, err
	}
	if s.Pod == nil {
		return able.NewBlockVolumeUnmapper(s.LastPod.Name, s.LastPod.Pod)
	}
	return able.NewBlockVolumeMapper(s.Spec, s.Pod)
}

// DeviceMountPathOf returns the device mount path before an operation exists. It is empty if the
// volume has none, or if the plugin returns an error, which the operation repeats and reports.
func DeviceMountPathOf(plugin volume.VolumePlugin, spec *volume.Spec, traits naming.Traits, pod *v1.Pod) string {
	if !traits.OnDevice() {
		return ""
	}
	path, err := SharedVolume{Plugin: plugin, Spec: spec, Block: traits.Block, Pod: pod}.DeviceMountPath()
	if err != nil {
		return ""
	}
	return path
}

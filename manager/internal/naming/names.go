package naming

import (
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// UniqueName returns the unique name of a volume on this node. A shared volume (attachable,
// with a device mount, or for one pod at a time) has one name for all pods, and so one
// operation at a time. Any other volume has one name for each pod.
func (t Traits) UniqueName(plugin, volumeName string, pod types.UID) v1.UniqueVolumeName {
	if t.OneName() {
		return util.GetUniqueVolumeName(plugin, volumeName)
	}
	return UniqueNameInPod(plugin, volumeName, pod)
}

// UniqueNameInPod returns the unique name of a volume that is not shared.
func UniqueNameInPod(plugin, volumeName string, pod types.UID) v1.UniqueVolumeName {
	return util.GetUniqueVolumeNameWithPod(pod, plugin, volumeName)
}

// CheckNames refuses names that are invalid as directory names: otherwise the volume would be
// attached, and its record would be unreadable.
func CheckNames(pod *v1.Pod, spec *volume.Spec) error {
	if err := volume.ValidatePathComponent(field.NewPath("pod", "metadata", "uid"), string(pod.UID)); err != nil {
		return err
	}
	if err := volume.ValidatePathComponent(field.NewPath("volume", "name"), spec.Name()); err != nil {
		return err
	}
	if podvolume.IsView(spec.Name()) {
		return volume.Invalid(field.NewPath("volume", "name"), spec.Name(), "the name of a read-only view")
	}
	return nil
}

package manager

import (
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// uniqueName names a volume on this node. A volume that is attached, or mounted once
// for all pods, or for one pod at a time, has one name whichever pods use it, and so one
// operation at a time. Of any other each pod has one of its own.
func uniqueName(plugin, volumeName string, shared bool, pod types.UID) v1.UniqueVolumeName {
	if shared {
		return v1.UniqueVolumeName(plugin + "/" + volumeName)
	}
	return v1.UniqueVolumeName(plugin + "/" + string(pod) + "-" + volumeName)
}

// A podKey names a volume in a pod: the pod's directory has one of this name.
type podKey struct {
	pod  types.UID
	name string // volume.Spec.Name
}

// checkNames refuses what is no name of a directory: a plugin would get as far as to
// attach the volume, and a record of that could not be read again.
func checkNames(pod *v1.Pod, spec *volume.Spec) error {
	if err := volume.ValidatePathComponent(field.NewPath("pod", "metadata", "uid"), string(pod.UID)); err != nil {
		return err
	}
	return volume.ValidatePathComponent(field.NewPath("volume", "name"), spec.Name())
}

// A traits is what a plugin can do with a volume.
type traits struct {
	attachable      bool // has to be attached before it is mounted
	deviceMountable bool // is mounted once for all pods
	block           bool // is a device: mapped, not mounted, and once for all pods first
	onePod          bool // is for one pod at a time
	remount         bool // SetUp is to be called again from time to time
}

// oneName reports whether all pods use the volume by one name.
func (t traits) oneName() bool { return t.shared() || t.onePod }

// shared reports whether something is done for all pods, that a record tells of.
func (t traits) shared() bool { return t.attachable || t.onDevice() }

// onDevice reports whether there is a step for all pods before that for each.
func (t traits) onDevice() bool { return t.deviceMountable || t.block }

// traitsOf asks the plugin. What it cannot say is an error: a guess could detach
// what is in use.
func traitsOf(plugin volume.VolumePlugin, spec *volume.Spec) (traits, error) {
	t := traits{onePod: onePodOnly(spec)}
	var err error
	if p, ok := volume.As[volume.AttachableVolumePlugin](plugin); ok {
		if t.attachable, err = p.CanAttach(spec); err != nil {
			return t, err
		}
	}
	if spec.IsBlock() {
		t.block = true
		if _, ok := volume.As[volume.BlockVolumePlugin](plugin); !ok {
			return t, fmt.Errorf("%s as a block device: %w", plugin.GetPluginName(), volume.ErrNotSupported)
		}
	} else if p, ok := volume.As[volume.DeviceMountableVolumePlugin](plugin); ok {
		if t.deviceMountable, err = p.CanDeviceMount(spec); err != nil {
			return t, err
		}
	}
	if p, ok := volume.As[volume.RemountVolumePlugin](plugin); ok {
		t.remount = p.RequiresRemount(spec)
	}
	return t, nil
}

// onePodOnly reports whether the volume's only access mode is ReadWriteOncePod.
func onePodOnly(spec *volume.Spec) bool {
	pv := spec.PersistentVolume
	return pv != nil && slices.Equal(pv.Spec.AccessModes, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod})
}

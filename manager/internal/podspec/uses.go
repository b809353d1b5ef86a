package podspec

import (
	"errors"
	"slices"

	"github.com/volumekit/volumekit/util/podvolume"
	v1 "k8s.io/api/core/v1"
)

// A Use says whether the containers of a pod mount a volume or use it as a device.
type Use struct{ mounted, device bool }

// UsesOf returns the uses of volumes by containers of any kind, by the names of the volumes. A
// volume without a use is not set up.
func UsesOf(pod *v1.Pod) map[string]Use {
	mounts, devices := podvolume.Names(pod)
	uses := make(map[string]Use, len(mounts)+len(devices))
	for name := range mounts {
		uses[name] = Use{mounted: true, device: devices.Has(name)}
	}
	for name := range devices {
		uses[name] = Use{mounted: mounts.Has(name), device: true}
	}
	return uses
}

// MissingOf returns the names in uses for which the pod has no volume, sorted.
func MissingOf(pod *v1.Pod, uses map[string]Use) (missing []string) {
	for name := range uses {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name }) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// CheckBlock returns an error if a container mounts the volume, which is a block device.
func (u Use) CheckBlock() error {
	if u.mounted {
		return errors.New("a container lists the block device in volumeMounts")
	}
	return nil
}

// CheckFilesystem returns an error if a container uses the volume, which is a file system, as a
// device.
func (u Use) CheckFilesystem() error {
	if u.device {
		return errors.New("a container lists the file system in volumeDevices")
	}
	return nil
}

package manager

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// A use says how the containers of a pod use a volume.
type use struct{ mounted, device bool }

// usesOf returns the volumes that a pod's containers use, of all kinds of containers.
// The others are not set up.
func usesOf(pod *v1.Pod) map[string]use {
	uses := map[string]use{}
	add := func(mounts []v1.VolumeMount, devices []v1.VolumeDevice) {
		for _, m := range mounts {
			uses[m.Name] = use{mounted: true, device: uses[m.Name].device}
		}
		for _, d := range devices {
			uses[d.Name] = use{mounted: uses[d.Name].mounted, device: true}
		}
	}
	for _, c := range pod.Spec.InitContainers {
		add(c.VolumeMounts, c.VolumeDevices)
	}
	for _, c := range pod.Spec.Containers {
		add(c.VolumeMounts, c.VolumeDevices)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		add(c.VolumeMounts, c.VolumeDevices)
	}
	return uses
}

// errNoSuchVolume is not tried again before the pod changes.
var errNoSuchVolume = errors.New("a container uses it, and the pod has no such volume")

// missingOf returns the names that containers use and the pod does not have, sorted.
func missingOf(pod *v1.Pod, uses map[string]use) (missing []string) {
	for name := range uses {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name }) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// check compares how a volume is used with what it is.
func (u use) check(block bool) error {
	switch {
	case block && u.mounted:
		return fmt.Errorf("the volume is a block device, and a container has it in its volumeMounts")
	case !block && u.device:
		return fmt.Errorf("the volume is a file system, and a container has it in its volumeDevices")
	}
	return nil
}

// isTerminated reports whether the pod's containers have ended, for good.
func isTerminated(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

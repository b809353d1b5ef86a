package manager

import (
	"fmt"

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

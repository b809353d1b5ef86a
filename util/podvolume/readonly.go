package podvolume

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// ReadOnly reports whether the pod only reads from its volume of that name:
// the volume is a claim that is used read-only, or at least one container mounts
// it and all that do, init and ephemeral containers among them, mount it
// read-only. A container that uses it as a block device may write. The
// volume's own source does not count: see volume.Spec.IsReadOnly.
//
// A volume that no container uses, one that the pod does not have, and one of a
// nil pod are not read-only.
func ReadOnly(pod *v1.Pod, volumeName string) bool {
	if pod == nil || !hasVolume(pod, volumeName) {
		return false
	}
	if claimIsReadOnly(pod, volumeName) {
		return true
	}
	reads, writes := usersOf(pod, volumeName)
	return reads > 0 && writes == 0
}

// usersOf counts the containers' read-only uses of a volume, and the other ones.
func usersOf(pod *v1.Pod, name string) (reads, writes int) {
	for _, use := range usesIn(pod) {
		for _, mount := range use.mounts {
			if mount.Name == name && mount.ReadOnly {
				reads++
			} else if mount.Name == name {
				writes++
			}
		}
		for _, device := range use.devices {
			if device.Name == name {
				writes++
			}
		}
	}
	return reads, writes
}

func hasVolume(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
}

func claimIsReadOnly(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.Name == name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
	})
}

// uses are the volumeMounts and volumeDevices of one container of any kind.
type uses struct {
	mounts  []v1.VolumeMount
	devices []v1.VolumeDevice
}

func usesIn(pod *v1.Pod) []uses {
	var all []uses
	for _, c := range pod.Spec.InitContainers {
		all = append(all, uses{c.VolumeMounts, c.VolumeDevices})
	}
	for _, c := range pod.Spec.Containers {
		all = append(all, uses{c.VolumeMounts, c.VolumeDevices})
	}
	for _, c := range pod.Spec.EphemeralContainers {
		all = append(all, uses{c.VolumeMounts, c.VolumeDevices})
	}
	return all
}

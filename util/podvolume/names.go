package podvolume

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Names returns the names of the volumes that containers of the pod use, init
// and ephemeral containers among them: those in volumeMounts, and those in volumeDevices.
// A volume can be in both, and a name may be of no volume of the pod. The sets are the
// caller's, and empty for a nil pod.
func Names(pod *v1.Pod) (mounts, devices sets.Set[string]) {
	mounts, devices = sets.New[string](), sets.New[string]()
	if pod == nil {
		return mounts, devices
	}
	for _, use := range usesIn(pod) {
		for _, m := range use.mounts {
			mounts.Insert(m.Name)
		}
		for _, d := range use.devices {
			devices.Insert(d.Name)
		}
	}
	return mounts, devices
}

// IsLocalEphemeral reports whether the volume lives as long as its pod and is kept
// on the node's own disk, so that its bytes count as local ephemeral storage
// (v1.ResourceEphemeralStorage): an emptyDir of the default medium, a configMap, or a
// gitRepo. Volumes in memory (secrets, tokens, emptyDirs of other media) are not, nor is a
// nil volume.
func IsLocalEphemeral(v *v1.Volume) bool {
	if v == nil {
		return false
	}
	inDefaultMedium := v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault
	return inDefaultMedium || v.ConfigMap != nil || v.GitRepo != nil
}

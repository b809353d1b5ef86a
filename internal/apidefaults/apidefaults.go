// Package apidefaults does to what somebody has written what the API server does to it.
package apidefaults

import v1 "k8s.io/api/core/v1"

// Pod makes an emptyDir of each volume of which no more than its name is said.
func Pod(pod *v1.Pod) {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.VolumeSource == (v1.VolumeSource{}) {
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		}
	}
}

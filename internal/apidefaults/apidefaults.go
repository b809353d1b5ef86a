// Package apidefaults applies the API server's defaults to written objects.
package apidefaults

import v1 "k8s.io/api/core/v1"

// Pod makes each volume without a source an emptyDir.
func Pod(pod *v1.Pod) {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.VolumeSource == (v1.VolumeSource{}) {
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		}
	}
}

package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// ClaimOf returns the name of the volume's claim, or "" for a volume without one, and whether
// the volume requests read-only access. The claim of an ephemeral volume is named for the pod
// and the volume.
func ClaimOf(pod *v1.Pod, v *v1.Volume) (name string, readOnly bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, v.PersistentVolumeClaim.ReadOnly
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name, false
	}
	return "", false
}

// HasSameClaim reports whether the volume had the same claim in an earlier version of the
// pod, which must contain the volume.
func HasSameClaim(pod *v1.Pod, v *v1.Volume, last *v1.Pod) bool {
	i := slices.IndexFunc(last.Spec.Volumes, func(other v1.Volume) bool { return other.Name == v.Name })
	name, readOnly := ClaimOf(pod, v)
	lastName, lastReadOnly := ClaimOf(last, &last.Spec.Volumes[i])
	return pod.Namespace == last.Namespace && name == lastName && readOnly == lastReadOnly
}

package protect

import (
	"slices"

	"github.com/volumekit/volumekit/controllers/internal/claimindex"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keepsClaim reports whether a pod of the namespace of a claim keeps the claim from its end: the pod has
// a node, and names the claim or owns it by an ephemeral volume. No node starts a pod with a claim in
// deletion. A finished pod keeps the claims that it names until the pod is deleted.
func keepsClaim(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	return pod.Spec.NodeName != "" && slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return claimindex.NameOf(pod, &v) == claim.Name && (v.Ephemeral == nil || ownsClaim(pod, claim) && !isShutDown(pod))
	})
}

// needsClaim reports whether a pod of the namespace of a claim uses the claim, or will use it: the pod is
// not finished, and names the claim or owns it by an ephemeral volume.
func needsClaim(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	return !claimindex.IsFinished(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return claimindex.NameOf(pod, &v) == claim.Name && (v.Ephemeral == nil || ownsClaim(pod, claim))
	})
}

// ownsClaim reports whether a claim was created for an ephemeral volume of a pod of its namespace.
func ownsClaim(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	return metav1.IsControlledBy(claim, pod)
}

// isShutDown reports whether the node has unmounted the volumes of a pod in deletion, or a user has
// deleted the pod by force: then only finalizers keep the pod. One of them may wait for the end of the
// claim.
func isShutDown(pod *v1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return pod.DeletionTimestamp != nil && grace != nil && *grace == 0
}

// hasEphemeral reports whether a pod has an ephemeral volume.
func hasEphemeral(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil })
}

// Package claimindex finds the pods of a claim in a cache: an index has the pods by the claims that their
// volumes name. The cost of a look-up depends on the pods of the claim, and not on the pods of the cluster.
package claimindex

import (
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
)

// pods is the name of the index of pods. The controllers that share a cache share the index.
const pods = "volumekit.io/claims-of-pods"

// Add adds an index to a cache, unless another controller has added it.
func Add[O api.Object](cache *api.Cache[O], name string, of func(O) []string) error {
	if _, err := cache.ByIndex(name, ""); err == nil {
		return nil
	}
	return cache.AddIndex(name, of)
}

// AddPods adds the index of [Pods] to a cache. It returns nil if the cache has the index.
func AddPods(cache *api.Cache[*v1.Pod]) error { return Add(cache, pods, keysOf) }

// Pods returns the pods whose volumes name a claim, in no particular order. It fails without the index.
func Pods(cache *api.Cache[*v1.Pod], claim api.Key) ([]*v1.Pod, error) {
	return cache.ByIndex(pods, claim.String())
}

// keysOf returns the values of a pod in the index.
func keysOf(pod *v1.Pod) (keys []string) {
	for _, key := range ClaimsOf(pod) {
		keys = append(keys, key.String())
	}
	return keys
}

// ClaimsOf returns the claims that the volumes of a pod name.
func ClaimsOf(pod *v1.Pod) (claims []api.Key) {
	for i := range pod.Spec.Volumes {
		if name := NameOf(pod, &pod.Spec.Volumes[i]); name != "" {
			claims = append(claims, api.Key{Namespace: pod.Namespace, Name: name})
		}
	}
	return claims
}

// NameOf returns the name of the claim of a pod's volume, and "" for a volume without a claim.
func NameOf(pod *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// IsFinished reports whether no container of a pod runs or will run.
func IsFinished(pod *v1.Pod) bool {
	if pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		return true
	}
	mayRun := func(s v1.ContainerStatus) bool { return s.State.Terminated == nil && s.State.Waiting == nil }
	return pod.DeletionTimestamp != nil && !slices.ContainsFunc(pod.Status.ContainerStatuses, mayRun)
}

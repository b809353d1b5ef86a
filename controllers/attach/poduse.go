package attach

import (
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/claimstatus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hasFinished reports whether the containers of a pod have ended.
func hasFinished(pod *v1.Pod) bool {
	status := &pod.Status
	if status.Phase == v1.PodFailed || status.Phase == v1.PodSucceeded {
		return true
	}
	return pod.DeletionTimestamp != nil && hasEnded(status.InitContainerStatuses) &&
		hasEnded(status.ContainerStatuses) && hasEnded(status.EphemeralContainerStatuses)
}

// hasEnded reports whether no container runs.
func hasEnded(statuses []v1.ContainerStatus) bool {
	for _, s := range statuses {
		if s.State.Terminated == nil && s.State.Waiting == nil {
			return false
		}
	}
	return true
}

// claimName returns the name of the claim of a pod's volume, or "".
func claimName(pod *v1.Pod, vol *v1.Volume) string {
	switch {
	case vol.PersistentVolumeClaim != nil:
		return vol.PersistentVolumeClaim.ClaimName
	case vol.Ephemeral != nil:
		return pod.Name + "-" + vol.Name
	}
	return ""
}

// claimKeysOf returns the values of a pod in the index of pods by claims.
func claimKeysOf(pod *v1.Pod) (keys []string) {
	if pod.Spec.NodeName == "" {
		return nil
	}
	for i := range pod.Spec.Volumes {
		if name := claimName(pod, &pod.Spec.Volumes[i]); name != "" {
			keys = append(keys, api.Key{Namespace: pod.Namespace, Name: name}.String())
		}
	}
	return keys
}

// uses reports whether a pod uses a claim. An ephemeral claim belongs to its pod.
func uses(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		if claimName(pod, vol) == claim.Name && (vol.Ephemeral == nil || metav1.IsControlledBy(claim, pod)) {
			return true
		}
	}
	return false
}

// podsOfVolume returns the pods with a node whose claim is bound to a volume.
func (c *Controller) podsOfVolume(pv *v1.PersistentVolume) (pods []*v1.Pod, err error) {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return nil, nil
	}
	key := api.Key{Namespace: ref.Namespace, Name: ref.Name}
	claim, ok := c.claims.Get(key)
	if !ok || !claimstatus.IsBound(claim, pv) {
		return nil, nil
	}
	all, err := c.pods.ByIndex(podsByClaim, key.String())
	for _, pod := range all {
		if uses(pod, claim) {
			pods = append(pods, pod)
		}
	}
	return pods, err
}

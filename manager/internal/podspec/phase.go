package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// IsTerminated reports whether the pod's containers have ended for good.
func IsTerminated(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// HasRun reports whether a container of the pod runs, or has run, by its status.
func HasRun(pod *v1.Pod) bool {
	if pod.Status.Phase == v1.PodRunning {
		return true
	}
	has := func(c v1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, has) ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, has) ||
		slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, has)
}

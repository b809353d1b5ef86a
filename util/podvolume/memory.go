package podvolume

import (
	"math"

	"github.com/volumekit/volumekit/util/quantity"
	v1 "k8s.io/api/core/v1"
)

// Memory returns the bytes of memory that a pod may use by its limits, or those of its
// containers, with its overhead; 0 if it has no limit. A limit that is no number of bytes
// counts as none. The content of a volume in memory counts as its containers'. A nil pod has no
// limit.
func Memory(pod *v1.Pod) int64 {
	if pod == nil {
		return 0
	}
	n := containersMemory(pod)
	if whole := pod.Spec.Resources; whole != nil {
		if limit := memoryOf(whole.Limits); limit > 0 {
			n = limit
		}
	}
	if n == 0 {
		return 0
	}
	return addSizes(n, memoryOf(pod.Spec.Overhead))
}

// containersMemory returns the highest sum of the limits of containers that run at the same
// time; 0 if one of them has no limit. A sidecar runs beside the init containers after it,
// and beside all ordinary containers.
func containersMemory(pod *v1.Pod) int64 {
	var sum, beside, most int64
	for _, c := range pod.Spec.Containers {
		n := memoryOf(c.Resources.Limits)
		if n == 0 {
			return 0
		}
		sum = addSizes(sum, n)
	}
	for _, c := range pod.Spec.InitContainers {
		n := memoryOf(c.Resources.Limits)
		if n == 0 {
			return 0
		}
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			beside = addSizes(beside, n) // until the pod ends
			n = 0
		}
		most = max(most, addSizes(beside, n))
	}
	return max(addSizes(sum, beside), most)
}

func addSizes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// memoryOf returns a limit that says something.
func memoryOf(limits v1.ResourceList) int64 {
	q, ok := limits[v1.ResourceMemory]
	if !ok {
		return 0
	}
	n, err := quantity.Bytes(&q)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

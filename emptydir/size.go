package emptydir

import (
	"math"

	"github.com/volumekit/volumekit/util/quantity"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Sizes are in bytes; 0 is none: file systems take it for no limit.

// limitOf returns the limit that a volume's specification has.
func limitOf(written *resource.Quantity) (int64, error) {
	return bytesOf(field.NewPath("spec", "volume", "emptyDir", "sizeLimit"), written)
}

func bytesOf(at *field.Path, q *resource.Quantity) (int64, error) {
	switch {
	case q == nil:
		return 0, nil
	case q.Sign() < 0:
		return 0, field.Invalid(at, quantity.Text(q), "a size is not negative")
	}
	n, err := quantity.Bytes(q)
	if err != nil {
		return 0, field.Invalid(at, quantity.Text(q), err.Error())
	}
	return n, nil
}

// smallest returns the smallest of the limits that there are.
func smallest(limits ...int64) int64 {
	var least int64
	for _, n := range limits {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// podMemory returns the memory that the pod may use, with its overhead. None: it has no
// limit. What is in a volume in memory counts as its containers'.
func podMemory(pod *v1.Pod) int64 {
	n := containersMemory(pod)
	if whole := pod.Spec.Resources; whole != nil {
		if limit := memoryOf(whole.Limits); limit > 0 {
			n = limit
		}
	}
	if n == 0 {
		return 0
	}
	return add(n, memoryOf(pod.Spec.Overhead))
}

// containersMemory returns what the containers may use at the same time: none if one of
// them has no limit. While a container of the start runs, so do the sidecars before it.
func containersMemory(pod *v1.Pod) int64 {
	var sum, beside, most int64
	for _, c := range pod.Spec.Containers {
		n := memoryOf(c.Resources.Limits)
		if n == 0 {
			return 0
		}
		sum = add(sum, n)
	}
	for _, c := range pod.Spec.InitContainers {
		n := memoryOf(c.Resources.Limits)
		if n == 0 {
			return 0
		}
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			beside = add(beside, n) // until the pod ends
			n = 0
		}
		most = max(most, add(beside, n))
	}
	return max(add(sum, beside), most)
}

func add(a, b int64) int64 {
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
	n, err := bytesOf(nil, &q)
	if err != nil {
		return 0
	}
	return n
}

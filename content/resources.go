package content

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/quantity"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ofNode are the resources whose limit falls back to the node's allocatable ones.
var ofNode = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

// ofPod are the resources with a limit of the whole pod, to which containers without their
// own fall back.
var ofPod = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}

// divisors are the units that the API allows.
var (
	cpuDivisors  = []string{"1m", "1"}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

// splitResource splits "limits.cpu".
func splitResource(written string) (limit bool, name v1.ResourceName, ok bool) {
	of, rest, _ := strings.Cut(written, ".")
	name = v1.ResourceName(rest)
	known := slices.Contains(ofNode, name) || strings.HasPrefix(rest, v1.ResourceHugePagesPrefix)
	return of == "limits", name, known && (of == "limits" || of == "requests")
}

// badResource returns the fault of a resource reference, its field and value, or "".
func badResource(ref *v1.ResourceFieldSelector, pod *v1.Pod) (field, value, reason string) {
	_, name, ok := splitResource(ref.Resource)
	if !ok {
		return "resource", ref.Resource, "limits or requests of cpu, memory, ephemeral-storage or hugepages-<size>"
	}
	if containerOf(pod, ref.ContainerName) == nil {
		return "containerName", ref.ContainerName, "the pod has no such container"
	}
	allowed := byteDivisors
	if name == v1.ResourceCPU {
		allowed = cpuDivisors
	}
	if err := quantity.Check(&ref.Divisor); err != nil {
		return "divisor", quantity.Text(&ref.Divisor), err.Error()
	}
	if ref.Divisor.IsZero() || slices.ContainsFunc(allowed, func(unit string) bool {
		return ref.Divisor.Cmp(resource.MustParse(unit)) == 0
	}) {
		return "", "", ""
	}
	return "divisor", quantity.Text(&ref.Divisor), "one of " + strings.Join(allowed, ", ")
}

func containerOf(pod *v1.Pod, name string) *v1.Container {
	for _, all := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range all {
			if name != "" && all[i].Name == name {
				return &all[i]
			}
		}
	}
	return nil
}

// resource returns a container's limit or request of a resource in units of the divisor,
// rounded up.
func (c *collector) resource(ctx context.Context, ref *v1.ResourceFieldSelector) (string, error) {
	limit, name, _ := splitResource(ref.Resource)
	container := containerOf(c.pod, ref.ContainerName)
	if container == nil {
		return "", fmt.Errorf("container %s: not in the pod", input.Quote(ref.ContainerName))
	}
	have, ok := requestOf(container, name), true
	if limit {
		have, ok = limitOf(c.pod, container, name)
	}
	if !ok {
		var err error
		if have, err = c.allocatable(ctx, name); err != nil {
			return "", err
		}
	}
	what := fmt.Sprintf("%s of container %s", ref.Resource, input.Quote(ref.ContainerName))
	for _, q := range []*resource.Quantity{&have, &ref.Divisor} {
		if err := quantity.CheckOf(what, q); err != nil {
			return "", err
		}
	}
	n, err := units(have, ref.Divisor)
	if err != nil {
		return "", fmt.Errorf("%s is %s, in units of %s: %w",
			what, input.Shorten(quantity.Text(&have)), quantity.Text(&ref.Divisor), err)
	}
	return strconv.FormatInt(n, 10), nil
}

// requestOf returns a container's request, or its limit if it has none, which is the API
// server's default.
func requestOf(container *v1.Container, name v1.ResourceName) resource.Quantity {
	if request, ok := container.Resources.Requests[name]; ok {
		return request
	}
	return container.Resources.Limits[name]
}

// limitOf returns the limit of a container, or else of its pod. If ok is false there is
// none, and the node's allocatable resources apply.
func limitOf(pod *v1.Pod, container *v1.Container, name v1.ResourceName) (limit resource.Quantity, ok bool) {
	limit = container.Resources.Limits[name]
	if !limit.IsZero() || !slices.Contains(ofNode, name) {
		return limit, true
	}
	if pod.Spec.Resources != nil && slices.Contains(ofPod, name) {
		limit = pod.Spec.Resources.Limits[name]
	}
	return limit, !limit.IsZero()
}

// needsNode reports whether the value of a valid reference depends on the node's resources.
func needsNode(ref *v1.ResourceFieldSelector, pod *v1.Pod) bool {
	limit, name, _ := splitResource(ref.Resource)
	if !limit {
		return false
	}
	_, ok := limitOf(pod, containerOf(pod, ref.ContainerName), name)
	return !ok
}

// allocatable returns the node's allocatable amount. Processors and memory must be set; a
// missing ephemeral storage counts as 0, as with the kubelet.
func (c *collector) allocatable(ctx context.Context, name v1.ResourceName) (resource.Quantity, error) {
	all, err := c.Node.GetNodeAllocatable(ctx)
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("allocatable resources of the node: %w", err)
	}
	have, ok := all[name]
	if !ok && name != v1.ResourceEphemeralStorage {
		return have, fmt.Errorf("allocatable resources of the node: %w for %s", errNil, name)
	}
	return have, nil
}

// units divides and rounds up. The unit is a divisor that the API allows, or none, which
// counts as 1.
func units(have, unit resource.Quantity) (int64, error) {
	if unit.IsZero() {
		unit = resource.MustParse("1")
	}
	a, b := have.Value(), unit.Value()
	if unit.CmpInt64(1) < 0 { // 1m
		const most = math.MaxInt64 / 1000
		if have.CmpInt64(most) > 0 || have.CmpInt64(-most) < 0 {
			return 0, quantity.ErrTooLarge
		}
		a, b = have.MilliValue(), unit.MilliValue()
	}
	n := a / b
	if a%b > 0 {
		n++
	}
	return n, nil
}

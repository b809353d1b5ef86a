package content

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ofNode are the resources of which a container without a limit may use what the node
// has.
var ofNode = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

// divisors are the units that the API allows.
var (
	cpuDivisors  = []string{"1m", "1"}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

// splitResource takes "limits.cpu" apart.
func splitResource(written string) (limit bool, name v1.ResourceName, ok bool) {
	of, rest, _ := strings.Cut(written, ".")
	name = v1.ResourceName(rest)
	known := slices.Contains(ofNode, name) || strings.HasPrefix(rest, v1.ResourceHugePagesPrefix)
	return of == "limits", name, known && (of == "limits" || of == "requests")
}

// badResource says what is wrong with a reference that somebody wrote.
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

// resource returns how many units of a resource a container may use, or asks for,
// rounded up.
func (c *collector) resource(ctx context.Context, ref *v1.ResourceFieldSelector) (string, error) {
	limit, name, _ := splitResource(ref.Resource)
	container := containerOf(c.pod, ref.ContainerName)
	if container == nil {
		return "", fmt.Errorf("the pod has no container %.80q", ref.ContainerName)
	}
	from := container.Resources.Requests
	if limit {
		from = container.Resources.Limits
	}
	have, ok := from[name]
	if limit && (!ok || have.IsZero()) && slices.Contains(ofNode, name) {
		allocatable, err := c.allocatable(ctx)
		if err != nil {
			return "", err
		}
		have = allocatable[name]
	}
	for _, q := range []*resource.Quantity{&have, &ref.Divisor} {
		if err := quantity.Check(q); err != nil {
			return "", fmt.Errorf("%s of container %.80q is %.80s: %w", ref.Resource, ref.ContainerName, quantity.Text(q), err)
		}
	}
	return strconv.FormatInt(units(have, ref.Divisor, name == v1.ResourceCPU), 10), nil
}

func (c *collector) allocatable(ctx context.Context) (v1.ResourceList, error) {
	if c.Node == nil {
		return nil, fmt.Errorf("content: Config.Node is missing, for a container without a limit: %w", volume.ErrNotSupported)
	}
	return c.Node.GetNodeAllocatable(ctx)
}

// units divides, and rounds up.
func units(have, unit resource.Quantity, milli bool) int64 {
	if unit.IsZero() {
		unit = resource.MustParse("1")
	}
	a, b := have.Value(), unit.Value()
	if milli {
		a, b = have.MilliValue(), unit.MilliValue()
	}
	n := a / b
	if a%b > 0 {
		n++
	}
	return n
}

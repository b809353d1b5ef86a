package content_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPodLimits checks that a container without a limit has its pod's limit, and the node's
// allocatable value only if the pod has no limit either.
func TestPodLimits(t *testing.T) {
	n := newNode(t)
	n.SetNodeAllocatable(v1.ResourceList{
		"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi"), "ephemeral-storage": resource.MustParse("9Gi"),
	})
	source := downward(
		resourceItem("own", "main", "limits.cpu", ""), resourceItem("cpu", "first", "limits.cpu", "1m"),
		resourceItem("memory", "first", "limits.memory", "1Mi"), resourceItem("storage", "first", "limits.ephemeral-storage", "1Gi"),
		resourceItem("pages", "first", "limits.hugepages-2Mi", ""), resourceItem("asked", "first", "requests.memory", ""),
	)
	for _, test := range []struct {
		limits v1.ResourceList
		want   map[string]string
	}{
		{nil, map[string]string{"own": "2", "cpu": "4000", "memory": "1024", "storage": "9", "pages": "0", "asked": "0"}},
		{
			v1.ResourceList{"cpu": resource.MustParse("0"), "memory": resource.MustParse("256Mi")},
			map[string]string{"own": "2", "cpu": "4000", "memory": "256", "storage": "9", "pages": "0", "asked": "0"},
		},
		{
			v1.ResourceList{
				"cpu": resource.MustParse("2500m"), "memory": resource.MustParse("256Mi"),
				"ephemeral-storage": resource.MustParse("1Gi"), "hugepages-2Mi": resource.MustParse("4Mi"),
			},
			map[string]string{"own": "2", "cpu": "2500", "memory": "256", "storage": "9", "pages": "0", "asked": "0"},
		},
	} {
		n.pod.Spec.Resources = &v1.ResourceRequirements{Limits: test.limits, Requests: v1.ResourceList{"memory": resource.MustParse("1Mi")}}
		require.Equal(t, test.want, n.setUpAndRead(t, source, args{}))
	}
	n.tearDown(t, source)
}

// TestRequestsDefaultToLimits checks that a container's request defaults to its limit, as in
// the API server. An explicit request of 0 stays, and a pod's limit is no default for a
// request.
func TestRequestsDefaultToLimits(t *testing.T) {
	for _, q := range []struct {
		name                                   v1.ResourceName
		limit, request, wantLimit, wantRequest string
	}{
		{v1.ResourceCPU, "1500m", "300m", "2", "1"},
		{v1.ResourceMemory, "100M", "1M", "100000000", "1000000"},
		{v1.ResourceEphemeralStorage, "3Ki", "1Ki", "3072", "1024"},
		{"hugepages-2Mi", "4Mi", "2Mi", "4194304", "2097152"},
	} {
		list := func(text string) v1.ResourceList { return v1.ResourceList{q.name: resource.MustParse(text)} }
		for name, test := range map[string]struct {
			container, pod v1.ResourceRequirements
			want           string
		}{
			"limit alone":     {container: v1.ResourceRequirements{Limits: list(q.limit)}, want: q.wantLimit},
			"both":            {container: v1.ResourceRequirements{Limits: list(q.limit), Requests: list(q.request)}, want: q.wantRequest},
			"request of 0":    {container: v1.ResourceRequirements{Limits: list(q.limit), Requests: list("0")}, want: "0"},
			"limit of a pod":  {pod: v1.ResourceRequirements{Limits: list(q.limit)}, want: "0"},
			"nothing at all":  {want: "0"},
			"another's limit": {container: v1.ResourceRequirements{Limits: v1.ResourceList{"example.com/gpu": resource.MustParse("1")}}, want: "0"},
		} {
			t.Run(string(q.name)+"/"+name, func(t *testing.T) {
				n := newNode(t)
				n.pod.Spec.Containers[0].Resources, n.pod.Spec.Resources = test.container, &test.pod
				source := downward(resourceItem("asked", "main", "requests."+string(q.name), ""))
				require.Equal(t, map[string]string{"asked": test.want}, n.setUpAndRead(t, source, args{}))
			})
		}
	}
}

// TestPodLimitNeedsNoNode checks that the node's allocatable resources are not queried if
// the pod has a limit.
func TestPodLimitNeedsNoNode(t *testing.T) {
	n := nodeIn(t, t.TempDir(), mounttest.NewFake(mount.Config{}), func(c *content.Config) { c.Node = nil })
	n.pod.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": resource.MustParse("3")}}
	source := downward(resourceItem("cpu", "first", "limits.cpu", ""))
	require.Equal(t, map[string]string{"cpu": "3"}, n.setUpAndRead(t, source, args{}))
	n.tearDown(t, source)
}

func TestHostilePodLimit(t *testing.T) {
	for _, q := range hostileQuantities() {
		n := newNode(t)
		n.pod.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"memory": q}}
		inTime(t, func() {
			err := n.mounter(t, downward(resourceItem("a", "first", "limits.memory", ""))).SetUp(t.Context(), args{})
			require.True(t, q.IsZero() && err == nil || isHostileQuantity(err), "%v", err)
		})
	}
}

// allocatable is a getter that returns a list of allocatable resources, or an error.
type allocatable struct {
	list v1.ResourceList
	err  error
}

func (a allocatable) GetNodeAllocatable(context.Context) (v1.ResourceList, error) {
	return a.list, a.err
}

// TestAllocatableUnknown checks that an unknown allocatable resource is an error, not 0.
func TestAllocatableUnknown(t *testing.T) {
	down := errors.New("the server is down")
	cpu := v1.ResourceList{"cpu": resource.MustParse("4")}
	for name, test := range map[string]struct {
		node content.NodeGetter
		says string
	}{
		"failing":      {allocatable{cpu, down}, "the server is down"},
		"nothing":      {allocatable{nil, nil}, "returned nothing for memory"},
		"other things": {allocatable{cpu, nil}, "returned nothing for memory"},
		"not told":     {&content.MapGetter{}, "SetNodeAllocatable"},
	} {
		n := nodeIn(t, t.TempDir(), mounttest.NewFake(mount.Config{}), func(c *content.Config) { c.Node = test.node })
		m := n.mounter(t, downward(resourceItem("a", "first", "limits.memory", "")))
		err := m.SetUp(t.Context(), args{})
		require.ErrorContains(t, err, test.says, name)
		require.Equal(t, volume.Transient, volume.KindOf(err), name)
		require.NoDirExists(t, m.GetPath(), name)
	}
}

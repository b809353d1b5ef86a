package emptydir

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podWith returns a pod with a container for each of the lists, which are limits
// written as "name=quantity".
func podWith(lists ...map[v1.ResourceName]string) *v1.Pod {
	pod := &v1.Pod{}
	for _, list := range lists {
		limits := v1.ResourceList{}
		for name, q := range list {
			limits[name] = resource.MustParse(q)
		}
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: v1.ResourceRequirements{Limits: limits}})
	}
	return pod
}

type limits = map[v1.ResourceName]string

func TestParseMedium(t *testing.T) {
	const mi = 1 << 20
	for name, test := range map[string]struct {
		written v1.StorageMedium
		pod     *v1.Pod
		want    medium
	}{
		"disk":          {"", podWith(), medium{}},
		"memory":        {"Memory", podWith(), medium{fsType: "tmpfs"}},
		"named pages":   {"HugePages-2Mi", podWith(), medium{"hugetlbfs", 2 * mi}},
		"large pages":   {"HugePages-1Gi", podWith(), medium{"hugetlbfs", 1024 * mi}},
		"pod's pages":   {"HugePages", podWith(limits{"hugepages-2Mi": "4Mi"}), medium{"hugetlbfs", 2 * mi}},
		"same pages":    {"HugePages", podWith(limits{"hugepages-2Mi": "4Mi"}, limits{"hugepages-2048Ki": "2Mi"}), medium{"hugetlbfs", 2 * mi}},
		"one is named":  {"HugePages-2Mi", podWith(limits{"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}), medium{"hugetlbfs", 2 * mi}},
		"other memory":  {"HugePages", podWith(limits{"memory": "1Gi"}, limits{"hugepages-1Gi": "1Gi"}), medium{"hugetlbfs", 1024 * mi}},
		"no power":      {"HugePages-3Mi", podWith(), medium{}},
		"no size":       {"HugePages-", podWith(), medium{}},
		"zero":          {"HugePages-0", podWith(), medium{}},
		"negative":      {"HugePages--2Mi", podWith(), medium{}},
		"fraction":      {"HugePages-500m", podWith(), medium{}},
		"huge":          {"HugePages-1e99", podWith(), medium{}},
		"hostile":       {"HugePages-1e-99999999", podWith(), medium{}},
		"too large":     {"HugePages-16777216Ti", podWith(), medium{}},
		"small unit":    {"HugePages-2048Ki", podWith(), medium{"hugetlbfs", 2 * mi}},
		"option":        {"HugePages-2Mi,uid=0", podWith(), medium{}},
		"no pages":      {"HugePages", podWith(limits{"memory": "1Gi"}), medium{}},
		"several":       {"HugePages", podWith(limits{"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}), medium{}},
		"no medium":     {"Disk", podWith(), medium{}},
		"hostile pages": {"HugePages", podWith(limits{"hugepages-x,y": "1"}), medium{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseMedium(test.written, test.pod)
			if test.want == (medium{}) && test.written != "" {
				var refused *field.Error
				require.ErrorAs(t, err, &refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestPodMemory(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	withInit := func(pod *v1.Pod, limit string, policy *v1.ContainerRestartPolicy) *v1.Pod {
		init := podWith(limits{"memory": limit}).Spec.Containers[0]
		init.RestartPolicy = policy
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
		return pod
	}
	withWhole := func(pod *v1.Pod, limit string) *v1.Pod {
		pod.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"memory": resource.MustParse(limit)}}
		return pod
	}
	withOverhead := func(pod *v1.Pod, memory string) *v1.Pod {
		pod.Spec.Overhead = v1.ResourceList{"memory": resource.MustParse(memory)}
		return pod
	}
	pod := func() *v1.Pod { return podWith(limits{"memory": "1k"}) }
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want int64
	}{
		"none":        {podWith(), 0},
		"sum":         {podWith(limits{"memory": "1k"}, limits{"memory": "2k"}), 3000},
		"one without": {podWith(limits{"memory": "1k"}, limits{"cpu": "2"}), 0},
		"whole":       {withWhole(podWith(limits{}), "3"), 3},
		"less whole":  {withWhole(pod(), "3"), 3},
		"no whole":    {withWhole(pod(), "0"), 1000},
		"init":        {withInit(podWith(limits{"memory": "1k"}), "5k", nil), 5000},
		"small init":  {withInit(podWith(limits{"memory": "9k"}), "5k", nil), 9000},
		"sidecar":     {withInit(podWith(limits{"memory": "1k"}), "5k", &always), 6000},
		"early":       {withInit(withInit(pod(), "5k", &always), "9k", nil), 14000},
		"late":        {withInit(withInit(pod(), "9k", nil), "5k", &always), 9000},
		"two early":   {withInit(withInit(withInit(pod(), "5k", &always), "2k", &always), "3k", nil), 10000},
		"overhead":    {withOverhead(pod(), "2k"), 3000},
		"over whole":  {withOverhead(withWhole(pod(), "5k"), "2k"), 7000},
		"over none":   {withOverhead(podWith(limits{}), "2k"), 0},
		"over much":   {withOverhead(podWith(limits{"memory": "8E"}), "7E"), 1<<63 - 1},
		"free init":   {withInit(podWith(limits{"memory": "1k"}), "0", nil), 0},
		"overflow":    {podWith(limits{"memory": "8E"}, limits{"memory": "7E"}, limits{"memory": "7E"}), 1<<63 - 1},
		"much":        {podWith(limits{"memory": "7E"}, limits{"memory": "7E"}), 1<<63 - 1},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, podMemory(test.pod)) })
	}
}

func TestSmallest(t *testing.T) {
	require.Zero(t, smallest())
	require.Zero(t, smallest(0, -1))
	require.EqualValues(t, 2, smallest(0, 5, 2, 3))
}

func TestBytesOf(t *testing.T) {
	for written, want := range map[string]int64{"0": 0, "1": 1, "1Gi": 1 << 30, "500m": 1, "7E": 7e18} {
		q := resource.MustParse(written)
		got, err := bytesOf(field.NewPath("x"), &q)
		require.NoError(t, err, written)
		require.Equal(t, want, got, written)
	}
	for _, written := range []string{"-1", "10E", "1e30", "1e99999999", "-1e99999999", "0e99999999"} {
		q := resource.MustParse(written)
		before := q.DeepCopy()
		got, err := bytesOf(field.NewPath("x"), &q)
		var refused *field.Error
		require.ErrorAs(t, err, &refused, written)
		require.Zero(t, got)
		require.Equal(t, before, q, "the quantity is as it was")
	}
	got, err := bytesOf(nil, nil)
	require.NoError(t, err)
	require.Zero(t, got)
}

package emptydir

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podWith returns a pod with a container for each of the lists of limits.
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
		"named pages":   {"HugePages-2Mi", podWith(limits{"hugepages-2Mi": "4Mi"}), medium{"hugetlbfs", 2 * mi}},
		"large pages":   {"HugePages-1Gi", podWith(limits{"hugepages-1024Mi": "1Gi"}), medium{"hugetlbfs", 1024 * mi}},
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
		"small unit":    {"HugePages-2048Ki", podWith(limits{"hugepages-2Mi": "4Mi"}), medium{"hugetlbfs", 2 * mi}},
		"option":        {"HugePages-2Mi,uid=0", podWith(), medium{}},
		"no pages":      {"HugePages", podWith(limits{"memory": "1Gi"}), medium{}},
		"several":       {"HugePages", podWith(limits{"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}), medium{}},
		"other pages":   {"HugePages-2Mi", podWith(limits{"hugepages-1Gi": "1Gi"}), medium{}},
		"none asked":    {"HugePages-2Mi", podWith(limits{"memory": "1Gi"}), medium{}},
		"hostile other": {"HugePages-2Mi", podWith(limits{"hugepages-x,y": "1", "hugepages-2Mi": "4Mi"}), medium{"hugetlbfs", 2 * mi}},
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

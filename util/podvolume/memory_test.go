package podvolume

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type limits = map[v1.ResourceName]string

// podWith returns a pod with a container for each of the lists.
func podWith(lists ...limits) *v1.Pod {
	pod := &v1.Pod{}
	for _, list := range lists {
		of := v1.ResourceList{}
		for name, q := range list {
			of[name] = resource.MustParse(q)
		}
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: v1.ResourceRequirements{Limits: of}})
	}
	return pod
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
		"below none":  {podWith(limits{"memory": "-1"}), 0},
		"no number":   {podWith(limits{"memory": "1e99999999"}), 0},
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
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, Memory(test.pod)) })
	}
}

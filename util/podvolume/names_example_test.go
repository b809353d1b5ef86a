package podvolume_test

import (
	"fmt"

	"github.com/volumekit/volumekit/util/podvolume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

func ExampleReadOnly() {
	pod := &v1.Pod{}
	pod.Spec.Volumes = []v1.Volume{{Name: "data"}}
	pod.Spec.Containers = []v1.Container{
		{Name: "web", VolumeMounts: []v1.VolumeMount{{Name: "data", ReadOnly: true}}},
		{Name: "log", VolumeMounts: []v1.VolumeMount{{Name: "data"}}},
	}
	fmt.Println(podvolume.ReadOnly(pod, "data"))
	pod.Spec.Containers[1].VolumeMounts[0].ReadOnly = true
	fmt.Println(podvolume.ReadOnly(pod, "data"))
	// Output:
	// false
	// true
}

func ExampleNames() {
	pod := &v1.Pod{}
	pod.Spec.Containers = []v1.Container{{
		VolumeMounts:  []v1.VolumeMount{{Name: "config"}, {Name: "cache"}},
		VolumeDevices: []v1.VolumeDevice{{Name: "disk"}},
	}}
	mounts, devices := podvolume.Names(pod)
	fmt.Println(sets.List(mounts), sets.List(devices))
	// Output: [cache config] [disk]
}

func ExampleIsLocalEphemeral() {
	scratch := &v1.Volume{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
	fmt.Println(podvolume.IsLocalEphemeral(scratch))
	scratch.EmptyDir.Medium = v1.StorageMediumMemory
	fmt.Println(podvolume.IsLocalEphemeral(scratch))
	// Output:
	// true
	// false
}

package util_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
)

func ExampleJoinMountOptions() {
	fmt.Println(util.JoinMountOptions([]string{"hard", "ro"}, []string{"bg", "ro"}))
	// Output: [bg hard ro]
}

func ExampleMountOptionFromSpec() {
	pv := &v1.PersistentVolume{}
	pv.Spec.MountOptions = []string{"nfsvers=4.2"}
	pv.Annotations = map[string]string{v1.MountOptionAnnotation: "ro,hard"}
	fmt.Println(util.MountOptionFromSpec(volume.NewSpecFromPersistentVolume(pv, false)))
	// Output: [hard nfsvers=4.2 ro]
}

func ExampleGetAccessModesAsString() {
	offered := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany, v1.ReadWriteOnce}
	fmt.Println(util.GetAccessModesAsString(offered))
	asked := []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
	fmt.Println(util.AccessModesContainedInAll(offered, asked))
	// Output:
	// RWO,RWX
	// false
}

func ExampleCheckVolumeModeFilesystem() {
	block := v1.PersistentVolumeBlock
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	pv.Spec.VolumeMode = &block
	fmt.Println(util.CheckVolumeModeFilesystem(volume.NewSpecFromPersistentVolume(pv, false)))
	// Output: false <nil>
}

func ExampleReadOnlyInPod() {
	pod := &v1.Pod{}
	pod.Spec.Volumes = []v1.Volume{{Name: "data"}}
	pod.Spec.Containers = []v1.Container{
		{Name: "web", VolumeMounts: []v1.VolumeMount{{Name: "data", ReadOnly: true}}},
		{Name: "log", VolumeMounts: []v1.VolumeMount{{Name: "data"}}},
	}
	fmt.Println(util.ReadOnlyInPod(pod, "data"))
	pod.Spec.Containers[1].VolumeMounts[0].ReadOnly = true
	fmt.Println(util.ReadOnlyInPod(pod, "data"))
	// Output:
	// false
	// true
}

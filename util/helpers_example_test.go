package util_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/util"
)

func ExampleJoinMountOptions() {
	fmt.Println(util.JoinMountOptions([]string{"hard", "ro"}, []string{"bg", "ro"}))
	// Output: [bg hard ro]
}

func ExampleAccessModesContainedInAll() {
	offered := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany, v1.ReadWriteOnce}
	asked := []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
	fmt.Println(util.AccessModesContainedInAll(offered, asked))
	// Output: false
}

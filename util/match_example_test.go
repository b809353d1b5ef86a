package util_test

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/util"
)

func volumeOf(name, size string, modes ...v1.PersistentVolumeAccessMode) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	pv.Spec.AccessModes = modes
	return pv
}

// A binder chooses the smallest matching volume.
func ExampleMatchVolume() {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
	claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("5Gi")}

	bySize := []*v1.PersistentVolume{
		volumeOf("tiny", "1Gi", v1.ReadWriteOnce),
		volumeOf("shared", "10Gi", v1.ReadOnlyMany),
		volumeOf("large", "20Gi", v1.ReadWriteOnce),
	}
	var node *v1.Node // not scheduled yet
	found := slices.IndexFunc(bySize, func(pv *v1.PersistentVolume) bool {
		err := util.MatchVolume(claim, pv, node)
		if err != nil {
			fmt.Println(err)
		}
		return err == nil
	})
	fmt.Println("bind to", bySize[found].Name)
	// Output:
	// claim default/data: persistent volume "tiny": spec.capacity.storage: "1Gi", the claim requests "5Gi": no match
	// claim default/data: persistent volume "shared": spec.accessModes: "[ReadOnlyMany]", the claim requests "[ReadWriteOnce]": no match
	// bind to large
}

func ExampleCheckNodeAffinity() {
	pv := volumeOf("disk", "1Gi", v1.ReadWriteOnce)
	pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{
			Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{"node-1"},
		}},
	}}}}
	for _, name := range []string{"node-1", "node-2"} {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
		err := util.CheckNodeAffinity(pv, node)
		fmt.Println(name, err == nil, errors.Is(err, util.ErrMismatch))
	}
	// Output:
	// node-1 true false
	// node-2 false true
}

func ExampleSplitUniqueName() {
	name := util.GetUniqueVolumeName("kubernetes.io/nfs", "nfs.example/exports/a")
	fmt.Println(name)
	plugin, volumeName, err := util.SplitUniqueName(name)
	fmt.Println(plugin, volumeName, err)
	// Output:
	// kubernetes.io/nfs/nfs.example/exports/a
	// kubernetes.io/nfs nfs.example/exports/a <nil>
}

package recycler_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/recycler/recyclertest"
	"github.com/volumekit/volumekit/volume"
)

func ExamplePod() {
	source := v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "nfs.example", Path: "/exports/a"}}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-a", UID: "1"}}
	pv.Spec.NFS = source.NFS

	cluster := recyclertest.NewCluster(recyclertest.Config{
		Fate: func(*v1.Pod) recyclertest.Fate { return recyclertest.Fate{Run: time.Millisecond} },
	})
	cluster.Fill(source, "of the last claim")

	pods, err := recycler.NewPod(recycler.PodConfig{Client: cluster})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = pods.Recycle(context.Background(), pv.Name, volume.NewSpecFromPersistentVolume(pv, false))
	fmt.Println(err, cluster.Files(source), len(cluster.Pods()))
	// Output:
	// <nil> [] 0
}

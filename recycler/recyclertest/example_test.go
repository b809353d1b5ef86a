package recyclertest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/recycler/recyclertest"
	"github.com/volumekit/volumekit/volume"
)

// The first pod that scrubs the volume fails: the volume is not recycled, and no pod is left.
func Example() {
	source := v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "nfs.example", Path: "/exports/a"}}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-a", UID: "1"}}
	pv.Spec.NFS = source.NFS

	made := 0
	cluster := recyclertest.NewCluster(recyclertest.Config{
		Fate: func(*v1.Pod) recyclertest.Fate {
			if made++; made == 1 {
				return recyclertest.Fate{Run: time.Millisecond, Phase: v1.PodFailed, Message: "disk full"}
			}
			return recyclertest.Fate{Run: time.Millisecond}
		},
	})
	cluster.Fill(source, "old")

	pods, err := recycler.NewPod(recycler.PodConfig{Client: cluster})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		err := pods.Recycle(context.Background(), pv.Name, volume.NewSpecFromPersistentVolume(pv, false))
		fmt.Println("recycled:", err == nil, "files:", cluster.Files(source), "pods:", len(cluster.Pods()))
	}
	// Output:
	// recycled: false files: [old] pods: 0
	// recycled: true files: [] pods: 0
}

// Each call can be made to fail.
func ExampleFault() {
	cluster := recyclertest.NewCluster(recyclertest.Config{
		Fault: func(_ context.Context, call recyclertest.Call) recyclertest.Fault {
			if call.Op == recyclertest.Create {
				return recyclertest.Fault{Err: errors.New("the answer is lost"), Done: true}
			}
			return recyclertest.Fault{}
		},
	})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "scrub"}}
	_, err := cluster.Create(context.Background(), pod)
	fmt.Println(err)
	fmt.Println("created all the same:", len(cluster.Pods()) == 1)
	// Output:
	// the answer is lost
	// created all the same: true
}

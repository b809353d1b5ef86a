package clientgo_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/volumekit/volumekit/controllers/examples/clientgo"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/volume"
)

// The fake client gives no UIDs, and runs nothing: both is done here.
func TestPods(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		pod := action.(ktesting.CreateAction).GetObject().(*v1.Pod)
		pod.UID, pod.Status.Phase = types.UID("uid-"+pod.Name), v1.PodSucceeded
		return false, nil, nil
	})
	pods, err := recycler.NewPod(recycler.PodConfig{Client: clientgo.Pods{CoreV1Interface: client.CoreV1()}, PollInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "1"}}
	pv.Spec.NFS = &v1.NFSVolumeSource{Server: "nfs.example", Path: "/exports/a"}
	if err := pods.Recycle(t.Context(), pv.Name, volume.NewSpecFromPersistentVolume(pv, false)); err != nil {
		t.Fatal(err)
	}
	left, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		t.Fatalf("%v, left are %v", err, left.Items)
	}
}

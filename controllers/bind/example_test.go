package bind_test

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A claim receives the smallest volume that fits.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := apitest.NewServer(apitest.Config{}) // in a program: kubeclient.New(clientset)
	controller, err := bind.New(bind.Config{Cluster: server.Connect("binder")})
	if err != nil {
		fmt.Println(err)
		return
	}
	createExample(ctx, server.Direct())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()

	claim := waitUntilBound(ctx, server.Direct())
	capacity := claim.Status.Capacity[v1.ResourceStorage]
	fmt.Println(claim.Spec.VolumeName, capacity.String())
	cancel()
	fmt.Println(<-ended)
	// Output:
	// medium 5Gi
	// <nil>
}

// createExample creates three volumes, and a claim of 3Gi.
func createExample(ctx context.Context, cluster api.Cluster) {
	for name, size := range map[string]string{"small": "1Gi", "medium": "5Gi", "large": "20Gi"} {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		pv.Spec.NFS = &v1.NFSVolumeSource{Server: "nfs.example.com", Path: "/" + name}
		if _, err := cluster.PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil {
			fmt.Println(err)
		}
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
	claim.Spec.StorageClassName = new(string)
	claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("3Gi")}
	if _, err := cluster.PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
	}
}

// waitUntilBound returns the claim once it is bound.
func waitUntilBound(ctx context.Context, cluster api.Cluster) *v1.PersistentVolumeClaim {
	watcher, err := cluster.PersistentVolumeClaims("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if claim, ok := event.Object.(*v1.PersistentVolumeClaim); ok && claim.Status.Phase == v1.ClaimBound {
			return claim
		}
	}
	return nil
}

package sidecar_test

import (
	"context"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
)

// A claim receives a volume of a driver.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	driver := csitest.NewDriver(csitest.Config{Name: "disk.example.com", Capabilities: csitest.Capabilities{
		Plugin:     []csipb.PluginCapability_Service_Type{csipb.PluginCapability_Service_CONTROLLER_SERVICE},
		Controller: []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME},
	}})
	server := apitest.NewServer(apitest.Config{}) // in a program: kubeclient.New(clientset)
	ended := make(chan error)
	go func() {
		// In a program with a socket: Endpoint: "/csi/csi.sock".
		ended <- sidecar.Run(ctx, sidecar.Config{Conn: driver.Conn(), Cluster: server.Connect("sidecar")})
	}()

	if err := createExample(ctx, server.Direct()); err != nil {
		fmt.Println(err)
		return
	}
	watcher, err := server.Direct().PersistentVolumes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pv := (<-watcher.ResultChan()).Object.(*v1.PersistentVolume)
	fmt.Println(pv.Spec.CSI.Driver, pv.Spec.Capacity.Storage(), pv.Spec.ClaimRef.Name, pv.Spec.CSI.VolumeAttributes)
	watcher.Stop()
	cancel()
	fmt.Println(<-ended)
	// Output:
	// disk.example.com 1Gi data map[tier:fast]
	// <nil>
}

// createExample creates a class, and a claim for which the binder requests the driver.
func createExample(ctx context.Context, cluster api.Cluster) error {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "disk.example.com",
		Parameters: map[string]string{"tier": "fast", "csi.storage.k8s.io/fstype": "xfs"},
	}
	if _, err := cluster.StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": "disk.example.com"}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	_, err := cluster.PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	return err
}

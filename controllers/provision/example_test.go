package provision_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// directories provisions a directory of an NFS export for each claim.
type directories struct{ server, export, mounted string }

func (d directories) Provision(_ context.Context, options provision.Options) (*v1.PersistentVolume, error) {
	if err := os.MkdirAll(filepath.Join(d.mounted, options.PVName), 0o777); err != nil {
		return nil, err
	}
	pv := &v1.PersistentVolume{}
	pv.Spec.NFS = &v1.NFSVolumeSource{Server: d.server, Path: d.export + "/" + options.PVName}
	return pv, nil
}

func (d directories) Delete(_ context.Context, pv *v1.PersistentVolume) error {
	return os.RemoveAll(filepath.Join(d.mounted, pv.Name))
}

// A provisioner is two methods. The controller does the rest: here it provisions one claim.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	mounted, err := os.MkdirTemp("", "export")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(mounted) }()
	server := apitest.NewServer(apitest.Config{}) // in a program: kubeclient.New(clientset)
	controller, err := provision.New(provision.Config{
		Name:        "example.com/nfs",
		Provisioner: directories{server: "nfs.example.com", export: "/export", mounted: mounted},
		Cluster:     server.Connect("provisioner"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()

	pv := waitForVolume(ctx, server.Direct(), claimOfExample(ctx, server.Direct()))
	entries, err := os.ReadDir(mounted)
	fmt.Println(len(entries), "directory", err)
	fmt.Println(entries[0].Name() == pv.Name, pv.Spec.NFS.Server, pv.Spec.ClaimRef.Name, pv.Spec.StorageClassName)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// 1 directory <nil>
	// true nfs.example.com data slow
	// <nil>
}

// claimOfExample creates a class and a claim. The annotation is the request of the binder.
func claimOfExample(ctx context.Context, cluster api.Cluster) *v1.PersistentVolumeClaim {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.com/nfs"}
	_, err := cluster.StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", Annotations: map[string]string{
			provision.ProvisionerAnnotation: "example.com/nfs",
		}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name,
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
			Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	claim, err2 := cluster.PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	if err != nil || err2 != nil {
		fmt.Println(err, err2)
	}
	return claim
}

// waitForVolume returns the volume of a claim.
func waitForVolume(ctx context.Context, cluster api.Cluster, claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	options := metav1.ListOptions{FieldSelector: "metadata.name=pvc-" + string(claim.UID)}
	watcher, err := cluster.PersistentVolumes().Watch(ctx, options)
	if err != nil {
		fmt.Println(err)
	}
	defer watcher.Stop()
	return (<-watcher.ResultChan()).Object.(*v1.PersistentVolume)
}

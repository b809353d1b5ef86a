package ctrlruntime_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/ctrlruntime"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// addStorage adds two controllers to a manager: one provisions the volumes of the classes with a name, and one binds
// claims to volumes, which the cluster's own controller does unless it is switched off.
func addStorage(ctx context.Context, mgr manager.Manager, name string, provisioner provision.Provisioner) error {
	host, err := ctrlruntime.New(ctx, mgr, name)
	if err != nil {
		return err
	}
	provisioning, err := provision.New(provision.Config{
		Name: name, Provisioner: provisioner, Cluster: host.Cluster,
		Claims: host.Claims, Volumes: host.Volumes, Classes: host.Classes,
		Events: host.Events, Metrics: host.Metrics, Logger: host.Logger,
	})
	if err != nil {
		return err
	}
	binding, err := bind.New(bind.Config{
		Cluster: host.Cluster, Claims: host.Claims, Volumes: host.Volumes, Classes: host.Classes,
		Events: host.Events, Metrics: host.Metrics, Logger: host.Logger,
	})
	if err != nil {
		return err
	}
	return errors.Join(host.Add("provision", provisioning), host.Add("bind", binding))
}

// shares provisions a directory of a server for each claim. A real provisioner makes and removes it, too.
type shares struct{ server string }

func (s shares) Provision(_ context.Context, options provision.Options) (*v1.PersistentVolume, error) {
	pv := &v1.PersistentVolume{}
	pv.Spec.NFS = &v1.NFSVolumeSource{Server: s.server, Path: "/" + options.PVName}
	return pv, nil
}

func (shares) Delete(context.Context, *v1.PersistentVolume) error { return nil }

// The manager and its controllers on a cluster in memory, until a claim is bound.
func Example() {
	apis := apitest.NewServer(apitest.Config{})
	web := httptest.NewServer(apis.Connect("operator").Handler())
	defer web.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	mgr, err := ctrl.NewManager(&rest.Config{Host: web.URL}, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err == nil {
		err = addStorage(ctx, mgr, "shares.example.com", shares{"nfs.example.com"})
	}
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	pv, err := claim(ctx, apis.Direct(), "shares.example.com", "data")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("server:", pv.Spec.NFS.Server)
	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// server: nfs.example.com
	// ended: <nil>
}

// claim creates a claim and a class for it, and returns its volume once it is bound.
func claim(ctx context.Context, cluster api.Cluster, provisioner, name string) (*v1.PersistentVolume, error) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	claim.Spec.StorageClassName, claim.Spec.AccessModes = &class.Name, []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	claims := cluster.PersistentVolumeClaims(v1.NamespaceDefault)
	_, err := cluster.StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	if err == nil {
		claim, err = claims.Create(ctx, claim, metav1.CreateOptions{})
	}
	for ; err == nil && claim.Status.Phase != v1.ClaimBound; time.Sleep(10 * time.Millisecond) {
		claim, err = claims.Get(ctx, name, metav1.GetOptions{})
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		return nil, err
	}
	return cluster.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
}

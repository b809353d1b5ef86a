package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/protect"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
)

const driverName = "d.example.com"

// A cluster is a real API server with a binder, and with the service account of the program.
type cluster struct {
	*clustertest.Server
	account    *clustertest.Account
	kubeconfig string // of the account
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{Server: clustertest.Start(t)}
	c.account = c.NewAccount("rbac.yaml")
	c.kubeconfig = c.account.Kubeconfig()
	binder, err := bind.New(bind.Config{Cluster: kubeclient.New(c.Admin)})
	require.NoError(t, err)
	c.Start(binder.Run)
	protection, err := protect.New(protect.Config{Cluster: kubeclient.New(c.Admin)})
	require.NoError(t, err)
	c.Start(protection.Run)
	return c
}

// Eventually requires that a condition holds within a minute.
func (c *cluster) Eventually(what string, condition func() bool) {
	c.Helper()
	require.Eventually(c, condition, time.Minute, 10*time.Millisecond, what)
}

func (c *cluster) createClass(parameters map[string]string) {
	c.Helper()
	grows := true
	_, err := c.Admin.StorageV1().StorageClasses().Create(c.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class"}, Provisioner: driverName, Parameters: parameters, AllowVolumeExpansion: &grows,
	}, metav1.CreateOptions{})
	require.NoError(c, err)
}

func (c *cluster) createClaim(name string) {
	c.Helper()
	class := "class"
	_, err := c.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Create(c.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
}

// volumeOf waits until a claim is bound, and returns its volume.
func (c *cluster) volumeOf(name string) (pv *v1.PersistentVolume) {
	c.Helper()
	c.Eventually("claim "+name+" is bound", func() bool {
		claim, err := c.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Get(c.Context(), name, metav1.GetOptions{})
		if err != nil || claim.Status.Phase != v1.ClaimBound {
			return false
		}
		pv, err = c.Admin.CoreV1().PersistentVolumes().Get(c.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
		return err == nil
	})
	return pv
}

// deleteClaim deletes a claim, and waits for the end of its volume.
func (c *cluster) deleteClaim(name string, pv *v1.PersistentVolume) {
	c.Helper()
	require.NoError(c, c.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Delete(c.Context(), name, metav1.DeleteOptions{}))
	c.Eventually("volume "+pv.Name+" is deleted", func() bool {
		_, err := c.Admin.CoreV1().PersistentVolumes().Get(c.Context(), pv.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// startProgram runs the program as its service account, and returns the address of its endpoints.
func (c *cluster) startProgram(socket, args string) (address string) {
	c.Helper()
	listener, err := service.Listen(c.Context(), "127.0.0.1:0")
	require.NoError(c, err)
	log := &testbed.Buffer{}
	c.Cleanup(func() { require.NotContains(c, log.String(), "forbidden") })
	return startOn(c.T, parse(c.T, "--csi-address="+socket+" --kubeconfig="+c.kubeconfig+" "+args), listener, log)
}

// startDriver serves a driver with all capabilities of the controller until the end of the test.
func startDriver(t *testing.T, socket string) *csitest.Driver {
	t.Helper()
	d := csitest.NewDriver(csitest.Config{Name: driverName, KnownVolumes: true, Capabilities: csitest.Capabilities{
		Plugin:    []csipb.PluginCapability_Service_Type{csipb.PluginCapability_Service_CONTROLLER_SERVICE, csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS},
		Expansion: []csipb.PluginCapability_VolumeExpansion_Type{csipb.PluginCapability_VolumeExpansion_ONLINE},
		Controller: []csipb.ControllerServiceCapability_RPC_Type{
			csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
			csipb.ControllerServiceCapability_RPC_LIST_VOLUMES, csipb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
			csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME, csipb.ControllerServiceCapability_RPC_GET_CAPACITY,
			csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		},
	}})
	require.NoError(t, d.Listen(socket))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// createNode creates a node with the driver, in a zone.
func (c *cluster) createNode(name string) {
	c.Helper()
	_, err := c.Admin.CoreV1().Nodes().Create(c.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "north"}}}, metav1.CreateOptions{})
	require.NoError(c, err)
	_, err = c.Admin.StorageV1().CSINodes().Create(c.Context(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: "id", TopologyKeys: []string{"zone"}}}},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
}

// createSecret creates the Secret of the classes.
func (c *cluster) createSecret() {
	c.Helper()
	_, err := c.Admin.CoreV1().Secrets(metav1.NamespaceSystem).Create(c.Context(), &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login"}, StringData: map[string]string{"password": "hunter2-hunter2"},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
}

// TestKubeProgram: with the rights of its manifest the program provisions, attaches, expands, detaches and deletes
// the volume of a claim, and publishes the capacity of the driver.
func TestKubeProgram(t *testing.T) {
	c, dir := newCluster(t), shortDir(t)
	d := startDriver(t, dir+"/csi.sock")
	c.createNode("node")
	c.createSecret()
	c.createClass(map[string]string{"csi.storage.k8s.io/secret-name": "login", "csi.storage.k8s.io/secret-namespace": metav1.NamespaceSystem})
	address := c.startProgram(dir+"/csi.sock", "--leader-election --leader-election-namespace=kube-system --enable-capacity --capacity-for-immediate-binding --capacity-ownerref-level=-1")

	c.createClaim("data")
	pv := c.volumeOf("data")
	require.Equal(t, "north", pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0])
	attachment, err := c.Admin.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "attachment"},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driverName, NodeName: "node", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.Eventually("the volume is attached", func() bool {
		attachment, err = c.Admin.StorageV1().VolumeAttachments().Get(t.Context(), attachment.Name, metav1.GetOptions{})
		return err == nil && attachment.Status.Attached
	})
	claims := c.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault)
	c.Eventually("the request is changed", func() bool {
		claim, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
		require.NoError(t, err)
		claim.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("2Gi")
		_, err = claims.Update(t.Context(), claim, metav1.UpdateOptions{})
		return err == nil
	})
	c.Eventually("the volume is expanded", func() bool {
		claim, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
		return err == nil && claim.Status.Capacity.Storage().String() == "2Gi"
	})
	c.Eventually("the capacity is published", func() bool {
		list, err := c.Admin.StorageV1().CSIStorageCapacities(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 1 && list.Items[0].Capacity.String() == "1Ti"
	})
	require.NoError(t, c.Admin.StorageV1().VolumeAttachments().Delete(t.Context(), attachment.Name, metav1.DeleteOptions{}))
	c.Eventually("the volume is detached", func() bool {
		_, err := c.Admin.StorageV1().VolumeAttachments().Get(t.Context(), attachment.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	c.deleteClaim("data", pv)
	require.Empty(t, d.Volumes())
	require.Empty(t, d.Violations())
	c.Eventually("metrics", func() bool {
		_, text := get(t, address, "/metrics")
		return strings.Contains(text, `csi_sidecar_operations_seconds_count{driver_name="d.example.com",grpc_status_code="OK",method_name="DeleteVolume"}`)
	})
	status, _ := get(t, address, "/healthz")
	require.Equal(t, 200, status)
}

// TestKubeServedDriver: the claim of a user becomes a directory of the export of a served driver, and is deleted.
func TestKubeServedDriver(t *testing.T) {
	c, dir := newCluster(t), shortDir(t)
	export, records := dir+"/export", dir+"/records"
	for _, made := range []string{export, records} {
		require.NoError(t, os.Mkdir(made, 0o755))
	}
	kernel := mounttest.NewFake(mount.Config{})
	require.NoError(t, kernel.Mount(t.Context(), mount.Request{Source: "nfs.example.com:/export", Target: export, FSType: "nfs4"}))
	host, err := volume.NewHost(t.Context(), dir)
	require.NoError(t, err)
	listener, err := driver.Listen(t.Context(), dir+"/csi.sock")
	require.NoError(t, err)
	c.Start(func(ctx context.Context) error {
		return driver.Serve(ctx, listener, driver.Config{
			Name: driverName, Version: "1", NodeID: "node", Host: host, ControllerDir: records, Logger: slog.New(slog.DiscardHandler),
			Plugin: nfs.NewProvisioning(nfs.ProvisioningConfig{
				Config: nfs.Config{Mounter: kernel}, Provisioner: driverName, Server: "nfs.example.com", Path: "/export", Dir: export,
			}),
		})
	})
	c.createClass(map[string]string{"onDelete": "delete"})
	c.startProgram(dir+"/csi.sock", "--extra-create-metadata")
	for n := range 3 {
		c.createClaim(fmt.Sprint("data-", n))
	}
	for n := range 3 {
		name := fmt.Sprint("data-", n)
		pv := c.volumeOf(name)
		at := filepath.Join(export, "default-"+name+"-"+pv.Name)
		require.DirExists(t, at)
		c.deleteClaim(name, pv)
		require.NoDirExists(t, at)
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/agents/internal/manifest"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/rightstest"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKubeRights: the API server denies no call of the program, and the manifest grants no right that the
// program does not exercise. Without any single one of these rights the API server denies it.
func TestKubeRights(t *testing.T) {
	s := clustertest.Start(t)
	program := s.NewAccount("rbac.yaml")
	c := clustertest.New(t, kubeclient.New(s.Admin))
	c.CreateNode("node-1", "host-1")
	account := manifest.Read[*v1.ServiceAccount](t, "rbac.yaml")
	mounter := mounttest.NewFake(mount.Config{})
	o := options{
		provisioner: nfsSubdir, server: "nas", path: "/k8s", dir: testbed.Dir(t), root: testbed.Dir(t),
		election: true, namespace: account.Namespace, timeout: time.Minute,
	}
	require.NoError(t, mounter.Mount(t.Context(), mount.Request{Source: "nas:/k8s", Target: o.dir, FSType: "nfs"}))
	turn := 0
	program.RequireRights(nil, func(missing string) rightstest.Rights {
		turn++
		step := c.ProvisionerSteps(o.provisioner, "node-1")
		createOldVolume(c, fmt.Sprint("old-", turn), fmt.Sprint("good-", turn))
		leases := s.Admin.CoordinationV1().Leases(o.namespace)
		require.NoError(t, leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})) // of the last turn
		return program.Exercise(missing, func(ctx context.Context) error {
			connections, err := connect(ctx, program.Config, o.provisioner)
			if err != nil {
				return err
			}
			connections.mounter = mounter
			p, err := newProgram(ctx, o, connections, io.Discard)
			if err != nil {
				return err
			}
			return p.runLocked(ctx)
		}, step)
	})
}

// createOldVolume creates a volume of nfs-subdir-external-provisioner whose claim is deleted: the class
// decides how its directory ends.
func createOldVolume(c *clustertest.Cluster, name, class string) {
	c.Helper()
	_, err := c.API.PersistentVolumes().Create(c.Context(), &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provision.ProvisionedByAnnotation: nfsSubdir}},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource:        v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "nas", Path: "/k8s/default-gone-" + name}},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			StorageClassName:              class,
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
			Capacity:                      v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Ki")},
			ClaimRef:                      &v1.ObjectReference{Namespace: v1.NamespaceDefault, Name: "gone", UID: "gone"},
		},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
}

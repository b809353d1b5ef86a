package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/manifest"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// TestManifests: the names are those of the program, the program accepts its arguments, and its directories have the
// same paths on the node.
func TestManifests(t *testing.T) {
	set, account := manifest.Read[*appsv1.DaemonSet](t, "daemonset.yaml"), manifest.Read[*v1.ServiceAccount](t, "rbac.yaml")
	pod := set.Spec.Template.Spec
	require.Equal(t, account.Name, pod.ServiceAccountName)
	require.Equal(t, account.Namespace, set.Namespace)
	require.Equal(t, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	cluster, own := manifest.Read[*rbacv1.ClusterRoleBinding](t, "rbac.yaml"), manifest.Read[*rbacv1.RoleBinding](t, "rbac.yaml")
	require.Equal(t, manifest.Read[*rbacv1.ClusterRole](t, "rbac.yaml").Name, cluster.RoleRef.Name)
	require.Equal(t, manifest.Read[*rbacv1.Role](t, "rbac.yaml").Name, own.RoleRef.Name)
	require.Equal(t, account.Name, cluster.Subjects[0].Name)
	require.Equal(t, account.Name, own.Subjects[0].Name)

	driver, provisioner := pod.Containers[0], pod.Containers[1]
	t.Setenv(driver.Env[0].Name, "node-7")
	o, err := parse(driver.Args, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "node-7", o.Node)
	manifest.RequireProbe(t, driver, o.Health)
	object := manifest.Read[*storagev1.CSIDriver](t, "csidriver.yaml")
	require.Equal(t, o.Driver, object.Name)
	require.Equal(t, []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}, object.Spec.VolumeLifecycleModes)
	require.Equal(t, o.Driver, manifest.Read[*storagev1.StorageClass](t, "csidriver.yaml").Provisioner)

	hostPaths := map[string]string{}
	for _, volume := range pod.Volumes {
		hostPaths[volume.Name] = volume.HostPath.Path
	}
	mounts := map[string]v1.VolumeMount{}
	for _, m := range driver.VolumeMounts {
		require.Equal(t, hostPaths[m.Name], m.MountPath, m.Name)
		mounts[m.MountPath] = m
	}
	require.Contains(t, mounts, o.claims)
	require.Equal(t, v1.MountPropagationBidirectional, *mounts[o.Kubelet].MountPropagation)
	socket := provisioner.VolumeMounts[0]
	require.Equal(t, o.Endpoint, strings.Replace("/csi/csi.sock", socket.MountPath, hostPaths[socket.Name], 1))
	require.Contains(t, provisioner.Args, "--csi-address=/csi/csi.sock")
}

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

// TestManifests: the names are those of the program, and the program accepts its arguments.
func TestManifests(t *testing.T) {
	t.Setenv("NODE_NAME", "node-7")
	set, controller := manifest.Read[*appsv1.DaemonSet](t, "daemonset.yaml"), manifest.Read[*appsv1.Deployment](t, "deployment.yaml")
	require.Equal(t, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	require.Equal(t, controller.Spec.Selector.MatchLabels, controller.Spec.Template.Labels)
	require.Equal(t, manifest.Read[*v1.ServiceAccount](t, "rbac.yaml").Name, controller.Spec.Template.Spec.ServiceAccountName)
	binding := manifest.Read[*rbacv1.ClusterRoleBinding](t, "rbac.yaml")
	require.Equal(t, manifest.Read[*rbacv1.ClusterRole](t, "rbac.yaml").Name, binding.RoleRef.Name)
	require.Equal(t, controller.Spec.Template.Spec.ServiceAccountName, binding.Subjects[0].Name)

	node, err := parse(set.Spec.Template.Spec.Containers[0].Args, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "node-7", node.Node)
	require.Empty(t, node.server)
	manifest.RequireProbe(t, set.Spec.Template.Spec.Containers[0], node.Health)
	driver := manifest.Read[*storagev1.CSIDriver](t, "csidriver.yaml")
	require.Equal(t, node.Driver, driver.Name)
	require.Equal(t, []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}, driver.Spec.VolumeLifecycleModes)
	require.Equal(t, node.Driver, manifest.Read[*storagev1.StorageClass](t, "csidriver.yaml").Provisioner)
	mounted := set.Spec.Template.Spec.Containers[0].VolumeMounts[0]
	require.Equal(t, node.Kubelet, mounted.MountPath)
	require.Equal(t, node.Kubelet, set.Spec.Template.Spec.Volumes[0].HostPath.Path)
	require.Equal(t, v1.MountPropagationBidirectional, *mounted.MountPropagation)

	pod := controller.Spec.Template.Spec
	o, err := parse(pod.Containers[0].Args, io.Discard)
	require.NoError(t, err)
	require.Equal(t, node.Driver, o.Driver)
	manifest.RequireProbe(t, pod.Containers[0], o.Health)
	export := pod.Volumes[0]
	require.Equal(t, []string{export.NFS.Server, export.NFS.Path}, []string{o.server, o.path})
	require.Equal(t, export.Name, pod.Containers[0].VolumeMounts[0].Name)
	require.Equal(t, o.export, pod.Containers[0].VolumeMounts[0].MountPath)
	require.Equal(t, o.Endpoint, strings.Replace("/csi/csi.sock", pod.Containers[1].VolumeMounts[0].MountPath, pod.Containers[0].VolumeMounts[1].MountPath, 1))
}

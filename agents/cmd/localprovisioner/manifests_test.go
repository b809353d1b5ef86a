package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/manifest"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// TestClass: the class is that of the program, and waits for the scheduler.
func TestClass(t *testing.T) {
	class := manifest.Read[*storagev1.StorageClass](t, "class.yaml")
	o, err := parseOptions([]string{"-claims=/claims"}, &bytes.Buffer{})
	require.NoError(t, err)
	require.Equal(t, o.name, class.Provisioner)
	require.Equal(t, storagev1.VolumeBindingWaitForFirstConsumer, *class.VolumeBindingMode)
}

// TestDaemonSet: the program accepts its arguments, and its directories have the same paths on the node.
func TestDaemonSet(t *testing.T) {
	set := manifest.Read[*appsv1.DaemonSet](t, "daemonset.yaml")
	account := manifest.Read[*v1.ServiceAccount](t, "rbac.yaml")
	pod := set.Spec.Template.Spec
	require.Equal(t, account.Name, pod.ServiceAccountName)
	require.Equal(t, account.Namespace, set.Namespace)
	require.Equal(t, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	binding := manifest.Read[*rbacv1.ClusterRoleBinding](t, "rbac.yaml")
	require.Equal(t, manifest.Read[*rbacv1.ClusterRole](t, "rbac.yaml").Name, binding.RoleRef.Name)
	require.Equal(t, account.Name, binding.Subjects[0].Name)

	container := pod.Containers[0]
	t.Setenv(container.Env[0].Name, "node-7")
	o, err := parseOptions(container.Args, &bytes.Buffer{})
	require.NoError(t, err)
	require.Equal(t, "node-7", o.node)
	require.True(t, strings.HasSuffix(o.listen, ":8080"))
	hostPaths := map[string]string{}
	for _, v := range pod.Volumes {
		hostPaths[v.Name] = v.HostPath.Path
	}
	for _, m := range container.VolumeMounts {
		require.Equal(t, hostPaths[m.Name], m.MountPath, m.Name)
	}
	for _, dir := range append([]string{o.root}, o.claims...) {
		is := func(m v1.VolumeMount) bool { return m.MountPath == dir }
		require.True(t, slices.ContainsFunc(container.VolumeMounts, is), dir)
	}
}

// TestGoneNodesDeployment: the program accepts the arguments, and runs in the namespace of its Role.
func TestGoneNodesDeployment(t *testing.T) {
	deployment := manifest.Read[*appsv1.Deployment](t, "gonenodes.yaml")
	account := manifest.Read[*v1.ServiceAccount](t, "gonenodes-rbac.yaml")
	role := manifest.Read[*rbacv1.Role](t, "gonenodes-rbac.yaml")
	pod := deployment.Spec.Template.Spec
	require.Equal(t, account.Namespace+"/"+account.Name, deployment.Namespace+"/"+pod.ServiceAccountName)
	require.Equal(t, deployment.Namespace, role.Namespace)
	require.Equal(t, deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels)
	t.Setenv(pod.Containers[0].Env[0].Name, deployment.Namespace)
	o, err := parseOptions(pod.Containers[0].Args, &bytes.Buffer{})
	require.NoError(t, err)
	require.True(t, o.goneNodes)
	require.Equal(t, deployment.Namespace, o.namespace)
	require.Equal(t, ":8080", o.listen)
}

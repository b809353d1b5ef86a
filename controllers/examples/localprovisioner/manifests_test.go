package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
)

var strict = json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})

// decoded returns the object of type T of a manifest, which has no unknown fields.
func decoded[T runtime.Object](t *testing.T, file string) (object T) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, document := range strings.Split(string(text), "\n---\n") {
		any, _, err := strict.Decode([]byte(document), nil, nil)
		require.NoError(t, err)
		if found, ok := any.(T); ok {
			return found
		}
	}
	t.Fatalf("%s: no %T", file, object)
	return object
}

// TestClass: the class is that of the program, and waits for the scheduler.
func TestClass(t *testing.T) {
	class := decoded[*storagev1.StorageClass](t, "class.yaml")
	o, err := parseOptions([]string{"-claims=/claims"}, &bytes.Buffer{})
	require.NoError(t, err)
	require.Equal(t, o.name, class.Provisioner)
	require.Equal(t, storagev1.VolumeBindingWaitForFirstConsumer, *class.VolumeBindingMode)
}

// TestDaemonSet: the program accepts its arguments, and its directories have the same paths on the node.
func TestDaemonSet(t *testing.T) {
	set := decoded[*appsv1.DaemonSet](t, "daemonset.yaml")
	account := decoded[*v1.ServiceAccount](t, "rbac.yaml")
	pod := set.Spec.Template.Spec
	require.Equal(t, account.Name, pod.ServiceAccountName)
	require.Equal(t, account.Namespace, set.Namespace)
	require.Equal(t, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	binding := decoded[*rbacv1.ClusterRoleBinding](t, "rbac.yaml")
	require.Equal(t, decoded[*rbacv1.ClusterRole](t, "rbac.yaml").Name, binding.RoleRef.Name)
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

// TestRights: the manifest permits each call of a provisioner, and no other one but those of events, and
// of attributes classes, which the claims of this test do not have.
func TestRights(t *testing.T) {
	granted := map[string]bool{}
	for _, rule := range decoded[*rbacv1.ClusterRole](t, "rbac.yaml").Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted[verb+" "+resource] = true
			}
		}
	}
	c := newTestCluster(t)
	claims := c.start("node-1")
	claim := c.claim("data", "node-1", "1Mi")
	c.provisioned(claim)
	c.release(claim)
	c.eventually("the volume stays", func() bool { return len(c.directories(claims)) == 0 })
	c.eventually("the object stays", func() bool {
		list, err := c.server.Direct().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	exercised := map[string]bool{"create events": true, "patch events": true, "get volumeattributesclasses": true}
	for _, call := range c.server.Calls(apitest.Call{Identity: "node-1"}) {
		right := string(call.Verb) + " " + call.Resource
		require.Empty(t, call.Subresource, right)
		exercised[right] = true
		if call.Verb == apitest.Watch { // newer caches list by a watch where the server can
			exercised["list "+call.Resource] = true
		}
	}
	require.Equal(t, granted, exercised)
}

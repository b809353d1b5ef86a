package manifest_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/volumekit/volumekit/internal/kubeserver"
)

// A cluster is an API server with its clients.
type cluster struct {
	*testing.T
	clientset *kubernetes.Clientset
	dynamic   *dynamic.DynamicClient
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	server := kubeserver.Start(t)
	config := &rest.Config{Host: server.URL, BearerToken: server.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}}
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return &cluster{t, clientset, client}
}

// create creates the objects of a file. The API server refuses unknown and repeated fields.
func (c *cluster) create(file string) (created []*unstructured.Unstructured) {
	c.Helper()
	groups, err := restmapper.GetAPIGroupResources(c.clientset)
	require.NoError(c, err)
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	text, err := os.ReadFile(file)
	require.NoError(c, err)
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<20); ; {
		object := new(unstructured.Unstructured)
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return created
		}
		require.NoError(c, err)
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(c, err)
		object, err = c.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()).
			Create(c.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		require.NoError(c, err, "%s: %s", file, kind.Kind)
		created = append(created, object)
	}
}

// createAll creates the objects of a program, and requires that the API server accepts their pods.
func (c *cluster) createAll(program string) {
	c.Helper()
	files, err := filepath.Glob("../../cmd/" + program + "/*.yaml")
	require.NoError(c, err)
	require.GreaterOrEqual(c, len(files), 3)
	pods := 0
	for _, file := range files {
		for _, object := range c.create(file) {
			if kind := object.GetKind(); kind == "DaemonSet" || kind == "Deployment" || kind == "StatefulSet" {
				c.requirePod(object)
				pods++
			}
		}
	}
	require.Positive(c, pods)
}

// requirePod requires that the API server accepts a pod of a DaemonSet, a Deployment or a StatefulSet.
func (c *cluster) requirePod(object *unstructured.Unstructured) {
	c.Helper()
	workload := new(appsv1.Deployment) // the others have their templates at the same place
	require.NoError(c, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, workload))
	template := workload.Spec.Template
	pod := &v1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.GenerateName = object.GetName() + "-"
	_, err := c.clientset.CoreV1().Pods(object.GetNamespace()).Create(c.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(c, err, object.GetName())
}

// may reports whether a service account of kube-system has a right.
func (c *cluster) may(account string, right authorizationv1.ResourceAttributes) bool {
	c.Helper()
	review, err := c.clientset.AuthorizationV1().SubjectAccessReviews().Create(c.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:kube-system:" + account, ResourceAttributes: &right},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	return review.Status.Allowed
}

// rights are those of csi-provisioner, as its own documentation lists them. It needs those for topology and for
// capacity with the drivers that have them.
func rights(namespace string, topology, capacity bool) (all []authorizationv1.ResourceAttributes) {
	add := func(group, resource, namespace string, verbs ...string) {
		for _, verb := range verbs {
			all = append(all, authorizationv1.ResourceAttributes{Group: group, Resource: resource, Namespace: namespace, Verb: verb})
		}
	}
	add("", "persistentvolumes", "", "get", "list", "watch", "create", "patch", "delete")
	add("", "persistentvolumeclaims", "", "get", "list", "watch", "update")
	add("storage.k8s.io", "storageclasses", "", "get", "list", "watch")
	add("", "events", "", "list", "watch", "create", "update", "patch")
	if topology {
		add("storage.k8s.io", "csinodes", "", "get", "list", "watch")
		add("", "nodes", "", "get", "list", "watch")
	}
	if capacity {
		add("storage.k8s.io", "csistoragecapacities", namespace, "get", "list", "watch", "create", "update", "patch", "delete")
		add("", "pods", namespace, "get")
	}
	return all
}

// TestKubeAcceptsManifests: an API server accepts each object of the drivers, and their pods. The service
// account has the rights of the provisioner beside the driver, and no Secrets.
func TestKubeAcceptsManifests(t *testing.T) {
	c := newCluster(t)
	c.create("../../cmd/sidecar/rbac.yaml")
	c.createAll("diskdriver")
	for name, isLocal := range map[string]bool{"local": true, "nfs": false} {
		c.createAll(name + "driver")
		account := "volumekit-csi-" + name
		for _, right := range rights(metav1.NamespaceSystem, isLocal, isLocal) {
			require.True(t, c.may(account, right), "%s: %v", account, right)
		}
		for _, verb := range []string{"get", "list", "watch"} {
			require.False(t, c.may(account, authorizationv1.ResourceAttributes{Resource: "secrets", Verb: verb}))
			require.False(t, c.may(account, authorizationv1.ResourceAttributes{Resource: "secrets", Namespace: metav1.NamespaceSystem, Verb: verb}))
		}
	}
}

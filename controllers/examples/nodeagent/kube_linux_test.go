package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/internal/apicalls"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/mount"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const nodeName = "node-1"

// A cluster is a real API server with the manifests of this directory. It has the pods of one node,
// and no Node.
type cluster struct {
	*testing.T
	server   *kubeserver.Server
	admin    kubernetes.Interface
	account  *rest.Config // of the agent's service account
	roles    []*role
	disks    string
	recorder apicalls.Recorder // of the agent's calls
}

// A role is a ClusterRole or a Role.
type role struct {
	rules []rbacv1.PolicyRule
	// store replaces the rules on the API server.
	store func(rules []rbacv1.PolicyRule) error
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{T: t, server: kubeserver.Start(t)}
	config := &rest.Config{Host: c.server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: c.server.CA}, QPS: -1}
	admin := rest.CopyConfig(config)
	admin.BearerToken = c.server.Token
	var err error
	c.admin, err = kubernetes.NewForConfig(admin)
	require.NoError(t, err)
	for _, name := range []string{"kube-system", v1.NamespaceNodeLease, v1.NamespaceDefault} {
		require.Eventually(t, func() bool { // the API server creates them after its start
			_, err := c.admin.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
			return err == nil
		}, time.Minute, 20*time.Millisecond)
	}
	c.apply("rbac.yaml")
	c.apply("rbac-register.yaml")
	token, err := c.admin.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), "volumekit-nodeagent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.account = config
	c.account.BearerToken = token.Status.Token
	c.account.Wrap(c.recorder.Wrap)
	c.disks, err = filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return c
}

// apply creates the objects of a manifest.
func (c *cluster) apply(file string) {
	c.Helper()
	text, err := os.ReadFile(file)
	require.NoError(c, err)
	for _, document := range strings.Split(string(text), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		require.NoError(c, err)
		require.NoError(c, c.create(object))
	}
}

func (c *cluster) create(object runtime.Object) (err error) {
	ctx, rbac, core, options := c.Context(), c.admin.RbacV1(), c.admin.CoreV1(), metav1.CreateOptions{}
	switch o := object.(type) {
	case *v1.ServiceAccount:
		_, err = core.ServiceAccounts(o.Namespace).Create(ctx, o, options)
	case *rbacv1.ClusterRole:
		_, err = rbac.ClusterRoles().Create(ctx, o, options)
		c.roles = append(c.roles, &role{o.Rules, func(rules []rbacv1.PolicyRule) error {
			changed := o.DeepCopy()
			changed.Rules = rules
			_, err := rbac.ClusterRoles().Update(ctx, changed, metav1.UpdateOptions{})
			return err
		}})
	case *rbacv1.Role:
		_, err = rbac.Roles(o.Namespace).Create(ctx, o, options)
		c.roles = append(c.roles, &role{o.Rules, func(rules []rbacv1.PolicyRule) error {
			changed := o.DeepCopy()
			changed.Rules = rules
			_, err := rbac.Roles(o.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
			return err
		}})
	case *rbacv1.ClusterRoleBinding:
		_, err = rbac.ClusterRoleBindings().Create(ctx, o, options)
	case *rbacv1.RoleBinding:
		_, err = rbac.RoleBindings(o.Namespace).Create(ctx, o, options)
	case *v1.ConfigMap:
		_, err = core.ConfigMaps(o.Namespace).Create(ctx, o, options)
	case *v1.Secret:
		_, err = core.Secrets(o.Namespace).Create(ctx, o, options)
	case *v1.Pod:
		_, err = core.Pods(o.Namespace).Create(ctx, o, options)
	case *v1.Node:
		_, err = core.Nodes().Create(ctx, o, options)
	default:
		err = fmt.Errorf("%T: not expected", object)
	}
	return err
}

// createPods creates the pod "web", whose volumes are of each kind, with their objects, and the pod
// "broken", whose ConfigMap is missing.
func (c *cluster) createPods() {
	c.Helper()
	require.NoError(c, os.Mkdir(filepath.Join(c.disks, "data"), 0o755))
	meta := metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "web"}
	for _, object := range []runtime.Object{
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "default"}},
		&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"color": "blue"}},
		&v1.Secret{ObjectMeta: meta, StringData: map[string]string{"key": "value"}},
	} {
		require.NoError(c, c.create(object))
	}
	c.bind("web", filepath.Join(c.disks, "data"))
	require.NoError(c, c.create(newPod("web", webVolumes()...)))
	require.NoError(c, c.create(newPod("broken", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "missing"}}})))
}

// bind creates a claim with a volume at a path of the node, and binds them as the binder does.
func (c *cluster) bind(name, path string) {
	c.Helper()
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes, class := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, ""
	claims := c.admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault)
	claim, err := claims.Create(c.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: &class, VolumeName: name,
			Resources: v1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	_, err = c.admin.CoreV1().PersistentVolumes().Create(c.Context(), &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{AccessModes: modes, Capacity: size,
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			ClaimRef:               &v1.ObjectReference{Namespace: v1.NamespaceDefault, Name: name, UID: claim.UID},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{nodeName}}}}}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: size}
	_, err = claims.UpdateStatus(c.Context(), claim, metav1.UpdateOptions{})
	require.NoError(c, err)
}

func webVolumes() []v1.VolumeSource {
	web := v1.LocalObjectReference{Name: "web"}
	return []v1.VolumeSource{
		{EmptyDir: &v1.EmptyDirVolumeSource{}},
		{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: web}},
		{Secret: &v1.SecretVolumeSource{SecretName: web.Name}},
		{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: web.Name}},
		{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}}}},
	}
}

// newPod returns a pod of the node whose container uses volumes v0, v1 and so on.
func newPod(name string, volumes ...v1.VolumeSource) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name},
		Spec:       v1.PodSpec{NodeName: nodeName, ServiceAccountName: "default", Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
	for i, source := range volumes {
		name := fmt.Sprint("v", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	return pod
}

// runAgent runs an agent with -register until missing returns nothing, or the agent ends by itself.
func (c *cluster) runAgent(mounter mount.Interface, root string, missing func(*agent) []string) error {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	p, err := connect(ctx, c.account, nodeName)
	require.NoError(c, err)
	p.mounter = mounter
	a, err := newAgent(ctx, options{node: nodeName, root: root, disks: []string{c.disks}, register: true}, io.Discard, p)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(a.run(ctx), a.lock.Close()) }()
	for deadline := time.Now().Add(time.Minute); ; {
		left := missing(a)
		if len(left) == 0 {
			break
		}
		require.True(c, time.Now().Before(deadline), "the agent has not done in time: %q", left)
		select {
		case err := <-ended:
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	return <-ended
}

// rights are verbs with resources, with the answers of the API server: true for allowed.
type rights map[string]bool

// add adds calls; a right that was denied once is denied.
func (r rights) add(calls []apicalls.Call) {
	for _, call := range calls {
		if allowed, known := r[call.Right()]; call.Code != 0 && (allowed || !known) {
			r[call.Right()] = call.Code != 403
		}
	}
}

// granted returns the rights of the manifests.
func (c *cluster) granted() rights {
	all := rights{}
	for _, role := range c.roles {
		maps.Copy(all, rightsOf(role.rules))
	}
	return all
}

func rightsOf(rules []rbacv1.PolicyRule) rights {
	all := rights{}
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all[verb+" "+resource] = true
			}
		}
	}
	return all
}

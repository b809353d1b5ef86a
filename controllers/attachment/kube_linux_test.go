package attachment_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/kubeserver"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// permissions are those of the controller, as the documentation of the package lists them.
var permissions = []rbacv1.PolicyRule{
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments"}, Verbs: []string{"get", "list", "watch", "patch"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"persistentvolumes"}, Verbs: []string{"get", "list", "watch", "patch"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csinodes"}, Verbs: []string{"list", "watch"}},
}

// kubeClientset returns a clientset of a real API server. user is impersonated, unless it is "".
func kubeClientset(t *testing.T, s *kubeserver.Server, user string) *kubernetes.Clientset {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, BearerToken: s.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}, Impersonate: rest.ImpersonationConfig{UserName: user}})
	require.NoError(t, err)
	return clientset
}

// permittedCluster returns the clients of a user with the permissions of the controller and no others.
func permittedCluster(t *testing.T, s *kubeserver.Server) api.Cluster {
	t.Helper()
	rbac, meta := kubeClientset(t, s, "").RbacV1(), metav1.ObjectMeta{Name: identity}
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: permissions}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: identity},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: identity}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return kubeclient.New(kubeClientset(t, s, identity))
}

// A kubeWorld is a world on a real API server.
type kubeWorld struct {
	*world
	clientset *kubernetes.Clientset
}

// eventually polls until done returns true, for a minute at most.
func (w *kubeWorld) eventually(done func() bool) {
	w.Helper()
	require.Eventually(w, done, time.Minute, 10*time.Millisecond)
}

// rawStatus returns the status of a VolumeAttachment with the fields that the API's types may lack.
func (w *kubeWorld) rawStatus(name string) (status struct {
	AttachError struct {
		Message   string
		ErrorCode *int32
	}
}) {
	w.Helper()
	text, err := w.clientset.StorageV1().RESTClient().Get().Resource("volumeattachments").Name(name).Do(w.Context()).Raw()
	require.NoError(w, err)
	object := struct{ Status any }{&status}
	require.NoError(w, json.Unmarshal(text, &object))
	return status
}

// TestKubeAttachment: a real API server accepts the finalizers, the annotations, the status and the errors of
// the controller, which has the documented permissions alone; also at the limits of their sizes.
func TestKubeAttachment(t *testing.T) {
	s := kubeserver.Start(t)
	clientset := kubeClientset(t, s, "")
	w := &kubeWorld{&world{Bed: &simtest.Bed{T: t, Cluster: kubeclient.New(clientset)}, storage: newStorage()}, clientset}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	controller, err := attachment.New(attachment.Config{
		Cluster: permittedCluster(t, s), Attacher: w.storage, Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx) }()

	w.addVolume("pv", "disk")
	w.testErrors()
	w.testLimits()
	w.testDeletion()
	cancel()
	require.NoError(t, <-ended)
}

// testErrors attaches a volume after a missing node and a long error with a code.
func (w *kubeWorld) testErrors() {
	w.createOnServer(newAttachment("a", "pv", "node"))
	w.eventually(func() bool { return w.get("a").Status.AttachError != nil })
	require.Empty(w, w.get("a").Finalizers)
	failures := make([]error, 1000)
	for i := range failures {
		failures[i] = attachment.WithErrorCode(errors.New(strings.Repeat("ä\n", 4000)), 8)
	}
	w.storage.set(func(s *storage) { s.failures = failures })
	w.addNode("node", strings.Repeat("n", 256))
	w.eventually(func() bool { return strings.HasPrefix(w.rawStatus("a").AttachError.Message, "ä ä") })
	require.Equal(w, int32(8), *w.rawStatus("a").AttachError.ErrorCode)
	require.Contains(w, w.get("a").Finalizers, finalizer)
	require.True(w, w.isVolumeGuarded())
}

// testLimits attaches the volume with as much metadata as the API server stores.
func (w *kubeWorld) testLimits() {
	const size = 256 << 10
	w.storage.set(func(s *storage) { s.failures, s.metadata = nil, map[string]string{"k": strings.Repeat("x", size)} })
	w.eventually(func() bool { return strings.Contains(w.rawStatus("a").AttachError.Message, "more than") })
	w.storage.set(func(s *storage) { s.metadata = map[string]string{"k": strings.Repeat("x", size-1)} })
	w.eventually(func() bool { return w.get("a").Status.Attached })
	require.Len(w, w.get("a").Status.AttachmentMetadata["k"], size-1)
	require.Nil(w, w.get("a").Status.AttachError)
}

// testDeletion detaches the volume after an error, while another program has a finalizer, and deletes it.
func (w *kubeWorld) testDeletion() {
	w.updateOnServer("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = append(a.Finalizers, other) })
	w.storage.set(func(s *storage) { s.failures = []error{errors.New("in use")} })
	require.NoError(w, w.Cluster.PersistentVolumes().Delete(w.Context(), "pv", metav1.DeleteOptions{}))
	require.NoError(w, w.Cluster.VolumeAttachments().Delete(w.Context(), "a", metav1.DeleteOptions{}))
	w.eventually(func() bool { return len(w.get("a").Finalizers) == 1 })
	require.Equal(w, storagev1.VolumeAttachmentStatus{}, w.get("a").Status)
	require.Empty(w, w.stored())
	w.updateOnServer("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
	w.eventually(func() bool { return w.volume() == nil || !w.isVolumeGuarded() })
}

func (w *kubeWorld) createOnServer(a *storagev1.VolumeAttachment) {
	w.Helper()
	_, err := w.Cluster.VolumeAttachments().Create(w.Context(), a, metav1.CreateOptions{})
	require.NoError(w, err)
}

// updateOnServer changes the metadata of a VolumeAttachment, also if the controller writes at the same time.
func (w *kubeWorld) updateOnServer(name string, change func(*storagev1.VolumeAttachment)) {
	w.Helper()
	w.eventually(func() bool {
		found := w.get(name)
		change(found)
		_, err := w.Cluster.VolumeAttachments().Update(w.Context(), found, metav1.UpdateOptions{})
		return err == nil
	})
}

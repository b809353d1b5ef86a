package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/internal/kubeserver"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// patience is the time limit of a wait on a real API server.
const patience = time.Minute

// eventually polls until done returns true.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "no result within %v", patience)
	}
}

// kubeCluster returns the clients of a real API server.
func kubeCluster(t *testing.T, server *kubeserver.Server) api.Cluster {
	t.Helper()
	return kubeclient.New(kubeClientset(t, server, ""))
}

// kubeClientset returns a clientset of a real API server. user is impersonated, unless it is "".
func kubeClientset(t *testing.T, server *kubeserver.Server, user string) *kubernetes.Clientset {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: server.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}, Impersonate: rest.ImpersonationConfig{UserName: user}})
	require.NoError(t, err)
	return clientset
}

// attachRules are the permissions of an Attacher and a VolumeAttachments, as the package's
// documentation lists them.
var attachRules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments"}, Verbs: []string{"list", "watch"}},
}

// permittedCluster returns the clients of a user with these permissions and no others.
func permittedCluster(t *testing.T, server *kubeserver.Server, rules []rbacv1.PolicyRule) api.Cluster {
	t.Helper()
	const name = "agent"
	rbac, meta := kubeClientset(t, server, "").RbacV1(), metav1.ObjectMeta{Name: name}
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return kubeclient.New(kubeClientset(t, server, name))
}

// TestKubeAttach: on a real API server, which crashes in between, an attacher reports the volumes in
// use and sees attached volumes, and a VolumeAttachment is waited for, with the documented
// permissions alone.
func TestKubeAttach(t *testing.T) {
	server := kubeserver.Start(t)
	cluster := kubeCluster(t, server)
	nodes := cluster.Nodes()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := nodes.Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{
		"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
		Status: v1.NodeStatus{VolumesInUse: names{"earlier"}, Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}}}, metav1.CreateOptions{})
	require.NoError(t, err)

	used, permitted := &usedVolumes{}, permittedCluster(t, server, attachRules)
	attacher, err := node.NewAttacher(node.AttacherConfig{Cluster: permitted, Node: "node-1"})
	require.NoError(t, err)
	attachments, err := node.NewVolumeAttachments(node.VolumeAttachmentsConfig{Cluster: permitted, Node: "node-1"})
	require.NoError(t, err)
	ended := make(chan error, 2)
	go func() { ended <- attacher.Run(ctx, used) }()
	go func() { ended <- attachments.Run(ctx) }()
	inUse := func(want ...v1.UniqueVolumeName) func() bool {
		return func() bool {
			n, err := nodes.Get(ctx, "node-1", metav1.GetOptions{})
			require.NoError(t, err)
			require.Len(t, n.Status.Conditions, 1)
			return len(n.Status.VolumesInUse) == len(want) && (len(want) == 0 || n.Status.VolumesInUse[0] == want[0])
		}
	}
	require.True(t, inUse("earlier")())
	used.use("v")
	eventually(t, inUse("v"))

	attached := make(chan error, 1)
	go func() {
		path, err := attacher.Attach(ctx, attachmentOf("v"))
		require.Equal(t, "/dev/v", path)
		attached <- err
	}()
	n, err := nodes.Get(ctx, "node-1", metav1.GetOptions{})
	require.NoError(t, err)
	n.Status.VolumesAttached = []v1.AttachedVolume{{Name: "v", DevicePath: "/dev/v"}}
	_, err = nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, <-attached)

	server.Kill()
	used.use("w")
	require.NoError(t, server.Restart(ctx))
	eventually(t, inUse("w"))
	used.use()
	eventually(t, inUse())

	pv := "pv"
	object, err := cluster.VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: node.VolumeAttachmentName(driver, handle, "node-1")},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "node-1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	type result struct {
		metadata map[string]string
		err      error
	}
	waited := make(chan result, 1)
	go func() {
		metadata, err := attachments.WaitForAttachment(ctx, driver, handle)
		waited <- result{metadata, err}
	}()
	object.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "/dev/x"}}
	_, err = cluster.VolumeAttachments().UpdateStatus(ctx, object, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, result{map[string]string{"device": "/dev/x"}, nil}, <-waited)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}

package nodesteps

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Namespace is the namespace of the pods and their claims.
const Namespace = "ns"

// Objects are the calls for one kind of object that a clientset has.
type Objects[T any] interface {
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	UpdateStatus(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Clients are the clients of the API server.
type Clients struct {
	Namespaces      Objects[*v1.Namespace]
	ServiceAccounts interface { // of Namespace, as Pods and Claims
		Create(ctx context.Context, object *v1.ServiceAccount, opts metav1.CreateOptions) (*v1.ServiceAccount, error)
	}
	Pods    Objects[*v1.Pod]
	Claims  Objects[*v1.PersistentVolumeClaim]
	Volumes Objects[*v1.PersistentVolume]
}

// A Node is a real node with the clients of its API server.
type Node struct {
	*testing.T
	*kubeserver.Node
	Clients
	Kernel *mount.Mounter
}

// Await waits until a condition holds.
func (n *Node) Await(what string, holds func() bool) {
	n.Helper()
	for end := time.Now().Add(4 * time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			n.Fatalf("timeout: %s\n%s", what, n.Messages())
		}
	}
}

// CreateNamespace creates the namespace with the service account of its pods.
func (n *Node) CreateNamespace() {
	n.Helper()
	_, err := n.Namespaces.Create(n.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}, metav1.CreateOptions{})
	require.NoError(n, err)
	_, err = n.ServiceAccounts.Create(n.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	require.NoError(n, err)
}

// A Claim is a claim with the volume that it is bound to.
type Claim struct {
	Name, Volume string // names of both objects
	Size         resource.Quantity
	Source       v1.PersistentVolumeSource
	Affinity     *v1.VolumeNodeAffinity
}

// CreateClaim creates a claim and its volume, bound as the cluster's controller does.
func (n *Node) CreateClaim(c Claim) {
	n.Helper()
	ctx, size := n.Context(), v1.ResourceList{v1.ResourceStorage: c.Size}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	class := "manual"
	claim, err := n.Claims.Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &class, VolumeName: c.Volume, Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	require.NoError(n, err)
	pv, err := n.Volumes.Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: c.Volume},
		Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, StorageClassName: class, PersistentVolumeSource: c.Source, NodeAffinity: c.Affinity,
			ClaimRef: &v1.ObjectReference{Namespace: Namespace, Name: claim.Name, UID: claim.UID},
		},
	}, metav1.CreateOptions{})
	require.NoError(n, err)
	pv.Status.Phase = v1.VolumeBound
	_, err = n.Volumes.UpdateStatus(ctx, pv, metav1.UpdateOptions{})
	require.NoError(n, err)
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: size}
	_, err = n.Claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	require.NoError(n, err)
}

// NewPod returns a pod of the node with one container. Its image is kubeserver.Image.
func (n *Node) NewPod(name string, container v1.Container, volumes ...v1.Volume) *v1.Pod {
	grace, no := int64(1), false
	container.Name, container.Image, container.ImagePullPolicy = "c", kubeserver.Image, v1.PullNever
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{
			NodeName: n.Name, HostNetwork: true, ServiceAccountName: "default", AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace,
			Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}}, Containers: []v1.Container{container}, Volumes: volumes,
		},
	}
}

// CreatePod creates a pod.
func (n *Node) CreatePod(pod *v1.Pod) *v1.Pod {
	n.Helper()
	pod, err := n.Pods.Create(n.Context(), pod, metav1.CreateOptions{})
	require.NoError(n, err)
	return pod
}

// RunningPod waits until the container of a pod runs, and returns the pod.
func (n *Node) RunningPod(name string) (pod *v1.Pod) {
	n.Helper()
	n.Await(name+" runs", func() bool {
		var err error
		pod, err = n.Pods.Get(n.Context(), name, metav1.GetOptions{})
		return err == nil && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Running != nil
	})
	return pod
}

// PodDir returns the kubelet's directory of a pod.
func (n *Node) PodDir(pod *v1.Pod) string {
	return filepath.Join(n.Root, "pods", string(pod.UID))
}

// RequireDeleted deletes a pod, and waits until the pod is gone with its directory.
func (n *Node) RequireDeleted(pod *v1.Pod) {
	n.Helper()
	require.NoError(n, n.Pods.Delete(n.Context(), pod.Name, metav1.DeleteOptions{}))
	n.RequireGone(pod)
}

// RequireGone waits until a deleted pod is gone with its directory.
func (n *Node) RequireGone(pod *v1.Pod) {
	n.Helper()
	n.Await(pod.Name+" is gone", func() bool {
		_, err := n.Pods.Get(n.Context(), pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	n.Await("the directory of "+pod.Name+" is gone", func() bool {
		_, err := os.Lstat(n.PodDir(pod))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// Mounts returns the mounts below the kubelet's root, and below further directories, by their paths.
func (n *Node) Mounts(further ...string) map[string]mount.Info {
	n.Helper()
	table, err := n.Kernel.List(n.Context())
	require.NoError(n, err)
	all := map[string]mount.Info{}
	for _, info := range table {
		for _, dir := range append(further, n.Root) {
			if strings.HasPrefix(info.Mountpoint, dir+"/") {
				require.NotContains(n, all, info.Mountpoint, "stacked mounts")
				all[info.Mountpoint] = info
			}
		}
	}
	return all
}

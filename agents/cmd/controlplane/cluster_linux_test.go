package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestClusterFromNothing: pods with claims and with ephemeral volumes come up on an API server with this
// control plane, provisioners and nodes, and go away leaving no object, directory or mount.
// VOLUMEKIT_LONG=1 runs 1,000 pods.
func TestClusterFromNothing(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	w := newWhole(t, server.Direct(), func(identity string) api.Cluster { return server.Connect(identity) })
	w.run(5, podsOfTest(100))
}

// TestKubeClusterFromNothing is TestClusterFromNothing on a real API server.
func TestKubeClusterFromNothing(t *testing.T) {
	s := clustertest.Start(t)
	admin := kubeclient.New(s.Admin)
	w := newWhole(t, admin, func(string) api.Cluster { return admin })
	w.run(3, podsOfTest(30))
}

func podsOfTest(short int) int {
	if os.Getenv("VOLUMEKIT_LONG") != "" {
		return 1000
	}
	return short
}

// A whole is a cluster with all its parts.
type whole struct {
	*clustertest.Cluster // without a binder of its own
	connect              func(identity string) api.Cluster
	kernel               *mounttest.Fake
	class                *storagev1.StorageClass
	nodes                []*clustertest.Node
	roots, disks         []string
}

func newWhole(t *testing.T, admin api.Cluster, connect func(identity string) api.Cluster) *whole {
	return &whole{Cluster: &clustertest.Cluster{T: t, API: admin}, connect: connect, kernel: mounttest.NewFake(mount.Config{})}
}

// run brings a number of pods up on a number of nodes, and takes them away.
func (w *whole) run(nodes, pods int) {
	w.Helper()
	late := storagev1.VolumeBindingWaitForFirstConsumer
	class := clustertest.NewClass("directories", "example.com/directories", nil)
	class.VolumeBindingMode = &late
	w.class = w.CreateClass(class)
	w.Start(w.startPlane().run)
	for i := range nodes {
		w.startNode(fmt.Sprint("node-", i))
	}
	w.Start(w.schedule)
	var all []*v1.Pod
	for i := range pods {
		all = append(all, w.createPod(i))
	}
	for i, pod := range all {
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Minute)
		require.NoError(w, w.nodes[i%nodes].Volumes.WaitForAttachAndMount(ctx, pod), pod.Name)
		cancel()
	}
	for _, pod := range all {
		require.NoError(w, w.API.Pods(pod.Namespace).Delete(w.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
	w.deleteClaims()
	w.requireNothing(all)
}

// startPlane returns the control plane of this program.
func (w *whole) startPlane() *plane {
	w.Helper()
	p, err := newPlane(options{controllers: selection{every}}, parts{cluster: w.connect("controlplane"), announce: w.Record}, io.Discard)
	require.NoError(w, err)
	return p
}

// startNode runs the volume manager of a new node, and its provisioner.
func (w *whole) startNode(name string) {
	w.Helper()
	w.CreateNode(name, name)
	root, disks := w.TempDir(), testbed.Dir(w)
	w.roots, w.disks = append(w.roots, root), append(w.disks, disks)
	node, err := clustertest.NewNode(w.Context(), clustertest.NodeConfig{
		Cluster: w.connect(name), Name: name, Mounter: w.kernel, Root: root,
		Plugins: []volume.VolumePlugin{local.New(local.Config{Mounter: w.kernel, Roots: []string{disks}})},
	})
	require.NoError(w, err)
	w.nodes = append(w.nodes, node)
	w.Start(node.Run)
	plugin := local.NewProvisioning(local.ProvisioningConfig{
		Config: local.Config{Mounter: w.kernel}, Provisioner: w.class.Provisioner, ClaimRoots: []string{disks}, Hostname: name,
	})
	host, err := volume.NewHost(w.Context(), w.TempDir(), volume.WithNodeName(types.NodeName(name)))
	require.NoError(w, err)
	require.NoError(w, plugin.Init(w.Context(), host))
	provisioner, err := provision.FromPlugin(plugin)
	require.NoError(w, err)
	controller, err := provision.New(provision.Config{
		Name: w.class.Provisioner, Provisioner: provisioner, Cluster: w.connect("provisioner-of-" + name), Events: w.Record,
		Qualifier: func(_ context.Context, claim *v1.PersistentVolumeClaim) bool {
			return claim.Annotations[provision.SelectedNodeAnnotation] == name
		},
		DeletionGuard: func(_ context.Context, pv *v1.PersistentVolume) bool {
			of, ok := local.ProvisionedFor(pv)
			return ok && of == name
		},
	})
	require.NoError(w, err)
	w.Start(controller.Run)
}

// createPod creates a pod on a node: an even one with a claim, an odd one with an ephemeral volume.
func (w *whole) createPod(i int) *v1.Pod {
	w.Helper()
	name := fmt.Sprint("pod-", i)
	spec := v1.PersistentVolumeClaimSpec{
		StorageClassName: &w.class.Name, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name + "-data"}, Spec: spec}
	pod := clustertest.NewPod(name, fmt.Sprint("node-", i%len(w.nodes)), claim)
	if i%2 == 1 {
		pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: spec},
		}}
	} else {
		_, err := w.API.PersistentVolumeClaims(claim.Namespace).Create(w.Context(), claim, metav1.CreateOptions{})
		require.NoError(w, err)
	}
	pod, err := w.API.Pods(pod.Namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	require.NoError(w, err)
	return pod
}

// schedule selects the node of each claim, as the scheduler does: that of its pod.
func (w *whole) schedule(ctx context.Context) error {
	claims := w.API.PersistentVolumeClaims(v1.NamespaceDefault)
	watcher, err := claims.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-watcher.ResultChan():
			claim, ok := event.Object.(*v1.PersistentVolumeClaim)
			if !ok || claim.Annotations[provision.SelectedNodeAnnotation] != "" {
				continue
			}
			var i int
			if _, err := fmt.Sscanf(claim.Name, "pod-%d-data", &i); err != nil {
				return err
			}
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"node-%d"}}}`, provision.SelectedNodeAnnotation, i%len(w.nodes))
			if _, err := claims.Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
}

// deleteClaims deletes all claims, as users and the garbage collector do.
func (w *whole) deleteClaims() {
	w.Helper()
	claims := w.API.PersistentVolumeClaims(v1.NamespaceDefault)
	list, err := claims.List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	for _, claim := range list.Items {
		require.NoError(w, claims.Delete(w.Context(), claim.Name, metav1.DeleteOptions{}))
	}
}

// requireNothing waits until all that the pods had is gone.
func (w *whole) requireNothing(pods []*v1.Pod) {
	w.Helper()
	for i, pod := range pods {
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Minute)
		require.NoError(w, w.nodes[i%len(w.nodes)].Volumes.WaitForUnmount(ctx, pod), pod.Name)
		cancel()
	}
	require.Eventually(w, func() bool {
		claims, err := w.API.PersistentVolumeClaims("").List(w.Context(), metav1.ListOptions{})
		require.NoError(w, err)
		volumes, err := w.API.PersistentVolumes().List(w.Context(), metav1.ListOptions{})
		require.NoError(w, err)
		return len(claims.Items)+len(volumes.Items) == 0
	}, 5*time.Minute, 100*time.Millisecond, "objects are left")
	mounts, err := w.kernel.List(w.Context())
	require.NoError(w, err)
	require.Len(w, mounts, 1, "the root alone")
	for i := range w.nodes {
		for _, pattern := range []string{w.disks[i] + "/[^.]*", w.roots[i] + "/pods/*/volumes/*/*"} {
			left, err := filepath.Glob(pattern)
			require.NoError(w, err)
			require.Empty(w, left)
		}
	}
}

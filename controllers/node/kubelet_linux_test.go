package node_test

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
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A kubeletNode is a real node, with clients of its API server.
type kubeletNode struct {
	*testing.T
	*kubeserver.Node
	clientset *kubernetes.Clientset
	kernel    *mount.Mounter
	disks     string // the directory of the local volume
}

// await waits until a condition holds.
func (n *kubeletNode) await(what string, holds func() bool) {
	n.Helper()
	for end := time.Now().Add(4 * time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			n.Fatalf("timeout: %s\n%s", what, n.Messages())
		}
	}
}

// createObjects creates the volumes of the pod, and the pod.
func (n *kubeletNode) createObjects() *v1.Pod {
	n.Helper()
	ctx, core := n.Context(), n.clientset.CoreV1()
	_, err := core.Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{})
	require.NoError(n, err)
	_, err = core.ConfigMaps("ns").Create(ctx, configMap("cm", "1"), metav1.CreateOptions{})
	require.NoError(n, err)
	_, err = core.Secrets("ns").Create(ctx, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sec"}, StringData: map[string]string{"pw": "hidden"}}, metav1.CreateOptions{})
	require.NoError(n, err)

	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	class := "manual"
	claim, err := core.PersistentVolumeClaims("ns").Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim-a"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &class, VolumeName: "pv-a", Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	require.NoError(n, err)
	pv, err := core.PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-a"},
		Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, StorageClassName: class,
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: n.disks + "/a"}},
			ClaimRef:               &v1.ObjectReference{Namespace: "ns", Name: "claim-a", UID: claim.UID},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{n.Name}}},
			}}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(n, err)
	pv.Status.Phase = v1.VolumeBound
	_, err = core.PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{})
	require.NoError(n, err)
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: size}
	_, err = core.PersistentVolumeClaims("ns").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	require.NoError(n, err)

	pod, err := core.Pods("ns").Create(ctx, n.newPod(), metav1.CreateOptions{})
	require.NoError(n, err)
	return pod
}

// newPod returns a pod with eight kinds of volumes.
func (n *kubeletNode) newPod() *v1.Pod {
	group, grace, limit := int64(2000), int64(1), resource.MustParse("1Mi")
	file, no := v1.HostPathFile, false
	cm, sec := v1.LocalObjectReference{Name: "cm"}, v1.LocalObjectReference{Name: "sec"}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec: v1.PodSpec{
			NodeName: n.Name, HostNetwork: true, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace,
			Tolerations:     []v1.Toleration{{Operator: v1.TolerationOpExists}},
			SecurityContext: &v1.PodSecurityContext{FSGroup: &group},
			Containers: []v1.Container{{
				Name: "c", Image: kubeserver.Image, ImagePullPolicy: v1.PullNever,
				VolumeMounts: []v1.VolumeMount{
					{Name: "data", MountPath: "/data"}, {Name: "cm", MountPath: "/cm"}, {Name: "cm", MountPath: "/cmfile", SubPath: "key"},
					{Name: "nested", MountPath: "/cm/nested"}, {Name: "sec", MountPath: "/sec"}, {Name: "mem", MountPath: "/mem"},
					{Name: "self", MountPath: "/self"}, {Name: "all", MountPath: "/all"}, {Name: "host", MountPath: "/host", ReadOnly: true},
				},
			}},
			Volumes: []v1.Volume{
				{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim-a"}}},
				{Name: "cm", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: cm}}},
				{Name: "nested", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "sec", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}}},
				{Name: "mem", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &limit}}},
				{Name: "self", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
					{Path: "name", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}},
				}}}},
				{Name: "all", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
					{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: cm}}, {Secret: &v1.SecretProjection{LocalObjectReference: sec}},
				}}}},
				{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: n.disks + "/file", Type: &file}}},
			},
		},
	}
}

// runningPod waits until the pod runs, and returns it.
func (n *kubeletNode) runningPod() (pod *v1.Pod) {
	n.Helper()
	n.await("the pod runs", func() (running bool) {
		var err error
		pod, err = n.clientset.CoreV1().Pods("ns").Get(n.Context(), "all", metav1.GetOptions{})
		return err == nil && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Running != nil
	})
	return pod
}

// mounts returns the mounts below the kubelet's root, by their paths.
func (n *kubeletNode) mounts() map[string]mount.Info {
	n.Helper()
	table, err := n.kernel.List(n.Context())
	require.NoError(n, err)
	all := map[string]mount.Info{}
	for _, info := range table {
		if strings.HasPrefix(info.Mountpoint, n.Root+"/") {
			require.NotContains(n, all, info.Mountpoint, "stacked mounts")
			all[info.Mountpoint] = info
		}
	}
	return all
}

// requireUpdate changes the ConfigMap and waits for the change in the pod's volume.
func (n *kubeletNode) requireUpdate(pod *v1.Pod, value string) {
	n.Helper()
	_, err := n.clientset.CoreV1().ConfigMaps("ns").Update(n.Context(), configMap("cm", value), metav1.UpdateOptions{})
	require.NoError(n, err)
	file := filepath.Join(n.Root, "pods", string(pod.UID), "volumes/kubernetes.io~configmap/cm/key")
	n.await("the ConfigMap's new value in the pod", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && string(text) == value
	})
}

// runManager runs a manager on the kubelet's root until stop.
func (n *kubeletNode) runManager() (m *manager.Manager, stop func()) {
	n.Helper()
	source, err := node.NewSource(node.Config{Cluster: kubeclient.New(n.clientset), Node: types.NodeName(n.Name)})
	require.NoError(n, err)
	host, err := volume.NewHost(n.Context(), n.Root, volume.WithNodeName(types.NodeName(n.Name)))
	require.NoError(n, err)
	files := content.Config{Mounter: n.kernel, ConfigMaps: source, Secrets: source, Tokens: source}
	plugins, err := volume.NewVolumePluginMgr(n.Context(), host,
		content.NewConfigMap(files), content.NewSecret(files), content.NewDownwardAPI(files), content.NewProjected(files),
		emptydir.New(emptydir.Config{Mounter: n.kernel, NoteFiles: true}),
		hostpath.New(hostpath.Config{Mounter: n.kernel, Roots: []string{n.disks}, InPlace: true}),
		local.New(local.Config{Mounter: n.kernel, Roots: []string{n.disks}}))
	require.NoError(n, err)
	m, err = manager.New(manager.Config{Plugins: plugins, Mounter: n.kernel, Pods: source, Claims: source})
	require.NoError(n, err)
	unsubscribe := source.SubscribeContent(m.MarkRemountRequired)
	ctx, cancel := context.WithCancel(n.Context())
	ended := make(chan error, 2)
	go func() { ended <- source.Run(ctx) }()
	go func() { ended <- m.Run(ctx) }()
	return m, func() {
		cancel()
		<-ended
		<-ended
		unsubscribe()
	}
}

// TestKubeletGivesVolumes: a kubelet is stopped while a pod runs, the manager takes its volumes over,
// and a kubelet takes them back and removes them. No mount is made or removed meanwhile, the
// container runs on, and nothing is left.
func TestKubeletGivesVolumes(t *testing.T) {
	if os.Getenv("VOLUMEKIT_LONG") == "" {
		t.Skip("it needs a kubelet, which takes minutes to build: VOLUMEKIT_LONG=1")
	}
	if !kubeserver.Isolate(t) {
		return
	}
	server := kubeserver.Start(t)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: server.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}})
	require.NoError(t, err)
	disks, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(disks+"/a", 0o755))
	require.NoError(t, os.WriteFile(disks+"/file", []byte("of the host"), 0o644))
	n := &kubeletNode{T: t, Node: kubeserver.StartNode(t, server), clientset: clientset, kernel: mount.New(mount.Config{}), disks: disks}

	n.createObjects()
	pod := n.runningPod()
	n.StopKubelet()
	before := n.mounts()
	require.Len(t, before, 6, "tmpfs, local volume and subPath")

	m, stop := n.runManager()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, m.WaitForAttachAndMount(ctx, pod))
	after := n.mounts()
	require.Len(t, after, len(before))
	for path, was := range before {
		is := after[path]
		if strings.Contains(path, "/volumes/") {
			require.Equal(t, was.Flags|mount.NoSUID|mount.NoDev, is.Flags, path)
			was.Flags, was.Options = is.Flags, is.Options
		}
		require.Equal(t, was, is)
	}
	require.Empty(t, m.State().Leftovers)
	n.requireUpdate(pod, "2")
	stop()

	after = n.mounts()
	require.NoError(t, n.StartKubelet())
	n.requireUpdate(pod, "3")
	require.Equal(t, after, n.mounts())
	same := n.runningPod().Status.ContainerStatuses[0]
	require.Equal(t, pod.Status.ContainerStatuses[0].ContainerID, same.ContainerID)
	require.Zero(t, same.RestartCount)
	require.NoError(t, clientset.CoreV1().Pods("ns").Delete(t.Context(), "all", metav1.DeleteOptions{}))
	n.await("the pod is gone", func() bool {
		_, err := clientset.CoreV1().Pods("ns").Get(t.Context(), "all", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	n.await("the directory of the pod is gone", func() bool {
		_, err := os.Lstat(filepath.Join(n.Root, "pods", string(pod.UID)))
		return errors.Is(err, fs.ErrNotExist)
	})
	require.Empty(t, n.mounts())
	text, err := os.ReadFile(disks + "/file")
	require.NoError(t, err)
	require.Equal(t, "of the host", string(text))
}

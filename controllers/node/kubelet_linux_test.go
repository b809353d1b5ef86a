package node_test

import (
	"context"
	"os"
	"os/exec"
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
	"github.com/volumekit/volumekit/internal/kubeserver/nodesteps"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// A kubeletNode is a real node, with clients of its API server.
type kubeletNode struct {
	*nodesteps.Node
	clientset *kubernetes.Clientset
	disks     string // the directory of the local volumes
	links     string // the directory of the link "disk" to a device
}

// createObjects creates the objects to which the volumes of the pods refer.
func (n *kubeletNode) createObjects() {
	n.Helper()
	ctx, core := n.Context(), n.clientset.CoreV1()
	n.CreateNamespace()
	_, err := core.ConfigMaps("ns").Create(ctx, configMap("cm", "1"), metav1.CreateOptions{})
	require.NoError(n, err)
	_, err = core.Secrets("ns").Create(ctx, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sec"}, StringData: map[string]string{"pw": "hidden"}}, metav1.CreateOptions{})
	require.NoError(n, err)
	for _, name := range []string{"a", "b", "late"} {
		n.createClaim(name, filepath.Join(n.disks, name))
	}
	n.createClaim("disk", n.links+"/disk")
}

// createClaim creates a claim, "claim-" and the name, with its local volume, "pv-" and the name.
func (n *kubeletNode) createClaim(name, path string) {
	n.Helper()
	n.CreateClaim(nodesteps.Claim{
		Name: "claim-" + name, Volume: "pv-" + name, Size: resource.MustParse("1Gi"),
		Source: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
		Affinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{n.Name}}},
		}}}},
	})
}

// podOf returns a pod of the node with these volumes and mounts of its container.
func (n *kubeletNode) podOf(name string, volumes []v1.Volume, mounts []v1.VolumeMount) *v1.Pod {
	pod, group := n.NewPod(name, v1.Container{VolumeMounts: mounts}, volumes...), int64(2000)
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	return pod
}

// newPod returns a pod with ten kinds of volumes: a local one, one that the container only reads, and
// one on a device among them.
func (n *kubeletNode) newPod() *v1.Pod {
	limit, file := resource.MustParse("1Mi"), v1.HostPathFile
	cm, sec := v1.LocalObjectReference{Name: "cm"}, v1.LocalObjectReference{Name: "sec"}
	return n.podOf("all", []v1.Volume{
		{Name: "data", VolumeSource: byClaim("claim-a")}, {Name: "reads", VolumeSource: byClaim("claim-b")},
		{Name: "disk", VolumeSource: byClaim("claim-disk")}, {Name: "cm", VolumeSource: byConfigMap("cm")},
		{Name: "nested", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}, {Name: "sec", VolumeSource: bySecret("sec")},
		{Name: "mem", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &limit}}},
		{Name: "self", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "name", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		}}}},
		{Name: "all", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: cm}}, {Secret: &v1.SecretProjection{LocalObjectReference: sec}},
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}},
		{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: n.disks + "/file", Type: &file}}},
	}, []v1.VolumeMount{
		{Name: "data", MountPath: "/data"}, {Name: "reads", MountPath: "/reads", ReadOnly: true}, {Name: "disk", MountPath: "/disk"},
		{Name: "cm", MountPath: "/cm"}, {Name: "cm", MountPath: "/cmfile", SubPath: "key"},
		{Name: "nested", MountPath: "/cm/nested"}, {Name: "sec", MountPath: "/sec"}, {Name: "mem", MountPath: "/mem"},
		{Name: "self", MountPath: "/self"}, {Name: "all", MountPath: "/all"}, {Name: "host", MountPath: "/host", ReadOnly: true},
	})
}

// latePod returns a pod for which the manager sets all volumes up: a local one, the device of the first
// pod, files, a token, and directories on the disk and in memory.
func (n *kubeletNode) latePod() *v1.Pod {
	return n.podOf("late", []v1.Volume{
		{Name: "data", VolumeSource: byClaim("claim-late")}, {Name: "disk", VolumeSource: byClaim("claim-disk")},
		{Name: "cm", VolumeSource: byConfigMap("cm")}, {Name: "sec", VolumeSource: bySecret("sec")},
		{Name: "nested", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "mem", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		{Name: "all", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}},
	}, []v1.VolumeMount{
		{Name: "data", MountPath: "/data"}, {Name: "disk", MountPath: "/disk"}, {Name: "cm", MountPath: "/cm"}, {Name: "sec", MountPath: "/sec"},
		{Name: "nested", MountPath: "/cm/nested"}, {Name: "mem", MountPath: "/mem"}, {Name: "all", MountPath: "/all"},
	})
}

// requireToken requires a token in the volume of a pod.
func (n *kubeletNode) requireToken(pod *v1.Pod) {
	n.Helper()
	token, err := os.ReadFile(filepath.Join(n.PodDir(pod), "volumes/kubernetes.io~projected/all/token"))
	require.NoError(n, err)
	require.NotEmpty(n, token)
}

// attachDisk formats a loop device, and makes the link to it.
func (n *kubeletNode) attachDisk() {
	n.Helper()
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		mounttest.SkipWithout(n.T, "ext4", err)
	}
	image := filepath.Join(n.TempDir(), "image")
	require.NoError(n, os.WriteFile(image, nil, 0o600))
	require.NoError(n, os.Truncate(image, 16<<20))
	device, err := loop.AttachFileDevice(n.Context(), image, loop.Config{})
	if err != nil {
		mounttest.SkipWithout(n.T, "loop", err)
	}
	n.Cleanup(func() { require.NoError(n, loop.Detach(context.Background(), device)) })
	testbed.DetachAtEnd(n.T, device.Path)
	require.NoError(n, exec.Command(mkfs, "-q", device.Path).Run())
	require.NoError(n, os.Symlink(device.Path, n.links+"/disk"))
}

// requireUpdate changes the ConfigMap and waits for the change in the pod's volume.
func (n *kubeletNode) requireUpdate(pod *v1.Pod, value string) {
	n.Helper()
	_, err := n.clientset.CoreV1().ConfigMaps("ns").Update(n.Context(), configMap("cm", value), metav1.UpdateOptions{})
	require.NoError(n, err)
	file := filepath.Join(n.PodDir(pod), "volumes/kubernetes.io~configmap/cm/key")
	n.Await("the ConfigMap's new value in the pod", func() bool {
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
	files := content.Config{Mounter: n.Kernel, ConfigMaps: source, Secrets: source, Tokens: source}
	plugins, err := volume.NewVolumePluginMgr(n.Context(), host,
		content.NewConfigMap(files), content.NewSecret(files), content.NewDownwardAPI(files), content.NewProjected(files),
		emptydir.New(emptydir.Config{Mounter: n.Kernel, NoteFiles: true}),
		hostpath.New(hostpath.Config{Mounter: n.Kernel, Roots: []string{n.disks}, InPlace: true}),
		local.New(local.Config{Mounter: n.Kernel, Roots: []string{n.disks}, DeviceLinks: []string{n.links}}))
	require.NoError(n, err)
	m, err = manager.New(manager.Config{Plugins: plugins, Mounter: n.Kernel, Pods: source, Claims: source})
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

// requireSame requires that all earlier mounts exist, with flags that the manager adds.
func (n *kubeletNode) requireSame(earlier map[string]mount.Info) {
	n.Helper()
	now := n.Mounts()
	for path, was := range earlier {
		is := now[path]
		if strings.Contains(path, "/volumes/") || strings.Contains(path, "/local-volume/mounts/") {
			flags := was.Flags | mount.NoSUID | mount.NoDev
			if filepath.Base(path) == "pv-b" {
				flags |= mount.ReadOnly
			}
			require.Equal(n, flags, is.Flags, path)
			was.Flags, was.Options = is.Flags, is.Options
		}
		was.Deleted = is.Deleted // the file of a subPath, after a change of its ConfigMap
		require.Equal(n, was, is)
	}
}

// TestKubeletGivesVolumes: a kubelet is stopped while a pod runs, the manager takes its volumes over,
// and sets those of another pod up; then a kubelet takes all of them back, runs the other pod as well,
// and removes them. Each mount stays the same one, the first pod's container runs on, and nothing is
// left.
func TestKubeletGivesVolumes(t *testing.T) {
	if os.Getenv("VOLUMEKIT_LONG") == "" {
		t.Skip("it needs a kubelet, which takes minutes to build: VOLUMEKIT_LONG=1")
	}
	if !kubeserver.Isolate(t) {
		return
	}
	server := kubeserver.Start(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	clientset := kubeClientset(t, server, "")
	core := clientset.CoreV1()
	n := &kubeletNode{clientset: clientset, disks: dir + "/disks", links: dir + "/links", Node: &nodesteps.Node{
		T: t, Kernel: mount.New(mount.Config{}), Clients: nodesteps.Clients{
			Namespaces: core.Namespaces(), ServiceAccounts: core.ServiceAccounts(nodesteps.Namespace), Pods: core.Pods(nodesteps.Namespace),
			Claims: core.PersistentVolumeClaims(nodesteps.Namespace), Volumes: core.PersistentVolumes(),
		},
	}}
	for _, name := range []string{"disks/a", "disks/b", "disks/late", "links"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	require.NoError(t, os.WriteFile(n.disks+"/file", []byte("of the host"), 0o644))
	n.attachDisk()
	n.Node.Node = kubeserver.StartNode(t, server)

	n.createObjects()
	n.CreatePod(n.newPod())
	pod := n.RunningPod("all")
	n.StopKubelet()
	before := n.Mounts()
	require.Len(t, before, 9, "tmpfs, local volumes, device and subPath")

	m, stop := n.runManager()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, m.WaitForAttachAndMount(ctx, pod))
	require.Len(t, n.Mounts(), len(before))
	n.requireSame(before)
	require.Empty(t, m.State().Leftovers)
	n.requireUpdate(pod, "2")
	n.requireToken(pod)
	late := n.CreatePod(n.latePod())
	n.Await("the manager sees the new pod", func() bool { return m.WaitForAttachAndMount(ctx, late) == nil })
	n.requireToken(late)
	n.requireSame(before)
	stop()

	after := n.Mounts()
	require.Len(t, after, len(before)+5, "tmpfs and local volumes of the other pod")
	require.NoError(t, n.StartKubelet())
	n.RunningPod("late")
	n.requireUpdate(pod, "3")
	n.requireUpdate(late, "4")
	require.Equal(t, after, n.Mounts())
	same := n.RunningPod("all").Status.ContainerStatuses[0]
	require.Equal(t, pod.Status.ContainerStatuses[0].ContainerID, same.ContainerID)
	require.Zero(t, same.RestartCount)
	n.RequireDeleted(late)
	n.RequireDeleted(pod)
	n.Await("all is unmounted", func() bool { return len(n.Mounts()) == 0 })
	left, err := os.ReadDir(n.Root + "/plugins/kubernetes.io/local-volume/mounts")
	require.NoError(t, err)
	require.Empty(t, left)
	text, err := os.ReadFile(n.disks + "/file")
	require.NoError(t, err)
	require.Equal(t, "of the host", string(text))

	n.StopKubelet()
	m, stop = n.runManager()
	n.Await("the manager has no volume", func() bool {
		state := m.State()
		return state.Populated && len(state.Volumes) == 0
	})
	require.Empty(t, m.State().Leftovers)
	stop()
}

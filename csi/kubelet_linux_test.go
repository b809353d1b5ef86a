package csi_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/kubeserver/nodesteps"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

const (
	kubeletTestDriver = "fake.csi.volumekit.io"
	gibibyte          = 1 << 30
)

// A kubeletNode is a real node with a driver.
type kubeletNode struct {
	*nodesteps.Node
	clientset *kubernetes.Clientset
	driver    *servedDriver
}

// startKubeletNode starts an API server, a node, and a driver that registers there.
func startKubeletNode(t *testing.T) *kubeletNode {
	t.Helper()
	server := kubeserver.Start(t)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: server.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}})
	require.NoError(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	core := clientset.CoreV1()
	n := &kubeletNode{clientset: clientset, Node: &nodesteps.Node{
		T: t, Node: kubeserver.StartNode(t, server), Kernel: mount.New(mount.Config{}), Clients: nodesteps.Clients{
			Namespaces: core.Namespaces(), ServiceAccounts: core.ServiceAccounts(nodesteps.Namespace), Pods: core.Pods(nodesteps.Namespace),
			Claims: core.PersistentVolumeClaims(nodesteps.Namespace), Volumes: core.PersistentVolumes(),
		},
	}}
	n.driver = &servedDriver{
		Name: kubeletTestDriver, Dir: filepath.Join(dir, "driver"), Node: n.Name, Target: n.Root,
		Registry: filepath.Join(n.Root, "plugins_registry"), Stages: true,
	}
	n.createObjects()
	require.NoError(t, os.MkdirAll(n.driver.Registry, 0o750))
	n.driver.start(t)
	n.Await("the driver is registered", func() bool { return slices.Equal(n.registered(), []string{kubeletTestDriver}) })
	return n
}

// registered returns the names of the drivers in the CSINode object.
func (n *kubeletNode) registered() (names []string) {
	object, err := n.clientset.StorageV1().CSINodes().Get(n.Context(), n.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	for _, d := range object.Spec.Drivers {
		names = append(names, d.Name)
	}
	return names
}

func (n *kubeletNode) createObjects() {
	n.Helper()
	n.CreateNamespace()
	no, yes := false, true
	_, err := n.clientset.StorageV1().CSIDrivers().Create(n.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: kubeletTestDriver},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: &no, PodInfoOnMount: &yes},
	}, metav1.CreateOptions{})
	require.NoError(n, err)
}

// connect returns a connection to the driver.
func (n *kubeletNode) connect() *grpc.ClientConn {
	n.Helper()
	conn, err := grpc.NewClient("unix://"+n.driver.endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(n, err)
	n.Cleanup(func() { _ = conn.Close() })
	return conn
}

// mode is the capability of the test's volumes.
func mode() *csipb.VolumeCapability {
	return &csipb.VolumeCapability{
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

// createVolume creates a volume of the driver, with a claim that is bound to it.
func (n *kubeletNode) createVolume(name string) *csipb.Volume {
	n.Helper()
	created, err := csipb.NewControllerClient(n.connect()).CreateVolume(n.Context(), &csipb.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csipb.VolumeCapability{mode()},
		CapacityRange: &csipb.CapacityRange{RequiredBytes: gibibyte},
	})
	require.NoError(n, err)
	n.CreateClaim(nodesteps.Claim{
		Name: name, Volume: name, Size: *resource.NewQuantity(gibibyte, resource.BinarySI),
		Source: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
			Driver: kubeletTestDriver, VolumeHandle: created.Volume.VolumeId, VolumeAttributes: created.Volume.VolumeContext,
		}},
	})
	return created.Volume
}

// createPod creates a pod with a container that writes a file, named like the pod, to the volume of a
// claim.
func (n *kubeletNode) createPod(name, claim string) *v1.Pod {
	n.Helper()
	return n.CreatePod(n.NewPod(name, v1.Container{
		Command:      []string{"/busybox", "sh", "-c", "echo written > /data/" + name + "; exec /busybox sleep 86400"},
		VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}},
	}, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}))
}

// runningPod waits until the container of a pod runs, and has written its file.
func (n *kubeletNode) runningPod(name, claim string) (pod *v1.Pod) {
	n.Helper()
	pod = n.RunningPod(name)
	n.Await(name+" has written", func() bool {
		text, err := os.ReadFile(filepath.Join(n.volumeDir(pod, claim), name))
		return err == nil && string(text) == "written\n"
	})
	return pod
}

func (n *kubeletNode) volumeDir(pod *v1.Pod, claim string) string {
	return filepath.Join(n.PodDir(pod), "volumes/kubernetes.io~csi", claim, "mount")
}

// mounts returns the mounts below the kubelet's root and below the driver's directory, by their paths.
func (n *kubeletNode) mounts() map[string]mount.Info { return n.Mounts(n.driver.Dir) }

// requireMounts requires that the driver has staged one volume once, and published it for the pods.
func (n *kubeletNode) requireMounts(claim string, pods ...*v1.Pod) {
	n.Helper()
	all := n.mounts()
	for _, pod := range pods {
		require.Contains(n, all, n.volumeDir(pod, claim))
	}
	require.Len(n, all, 1+len(pods), "%v", all)
}

// requireExpanded expands a volume as the cluster's controller does, and waits until the node has
// done its part.
func (n *kubeletNode) requireExpanded(name string, volume *csipb.Volume, size int64) {
	n.Helper()
	ctx, core := n.Context(), n.clientset.CoreV1()
	expanded, err := csipb.NewControllerClient(n.connect()).ControllerExpandVolume(ctx, &csipb.ControllerExpandVolumeRequest{
		VolumeId: volume.VolumeId, CapacityRange: &csipb.CapacityRange{RequiredBytes: size}, VolumeCapability: mode(),
	})
	require.NoError(n, err)
	require.True(n, expanded.NodeExpansionRequired)
	list := v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	n.update(func() error {
		pv, err := core.PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		require.NoError(n, err)
		pv.Spec.Capacity = list
		_, err = core.PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{})
		return err
	})
	n.update(func() error {
		claim, err := core.PersistentVolumeClaims("ns").Get(ctx, name, metav1.GetOptions{})
		require.NoError(n, err)
		claim.Status.AllocatedResources = list
		claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{
			v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending,
		}
		_, err = core.PersistentVolumeClaims("ns").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})
	n.Await("the claim has its new size", func() bool {
		claim, err := core.PersistentVolumeClaims("ns").Get(ctx, name, metav1.GetOptions{})
		require.NoError(n, err)
		now := claim.Status.Capacity[v1.ResourceStorage]
		return now.Value() == size && claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] == ""
	})
}

// update repeats a write until it conflicts with no other.
func (n *kubeletNode) update(write func() error) {
	n.Helper()
	n.Await("write without a conflict", func() bool {
		err := write()
		if !apierrors.IsConflict(err) {
			require.NoError(n, err)
		}
		return err == nil
	})
}

// requireMeasured waits until the kubelet reports the statistics of a pod's volume.
func (n *kubeletNode) requireMeasured(pod *v1.Pod) {
	n.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	n.Await("statistics of the volume", func() bool {
		response, err := client.Get(fmt.Sprintf("https://%s:10250/stats/summary", n.Address))
		if err != nil {
			return false
		}
		defer response.Body.Close()
		var summary struct {
			Pods []struct {
				PodRef struct{ Name string }
				Volume []struct {
					Name          string
					CapacityBytes uint64
				}
			}
		}
		if err := json.NewDecoder(response.Body).Decode(&summary); err != nil {
			return false
		}
		for _, p := range summary.Pods {
			for _, v := range p.Volume {
				if p.PodRef.Name == pod.Name && v.Name == "data" && v.CapacityBytes > 0 {
					return true
				}
			}
		}
		return false
	})
}

// requireNothingLeft requires that all volumes are gone from the node, but for the driver's files.
func (n *kubeletNode) requireNothingLeft(name string, volume *csipb.Volume) {
	n.Helper()
	n.Await("all is unmounted", func() bool { return len(n.mounts()) == 0 })
	n.Await("the staging directories are gone", func() bool {
		left, err := os.ReadDir(filepath.Join(n.Root, "plugins/kubernetes.io/csi", kubeletTestDriver))
		return len(left) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist))
	})
	// The fake deletes empty directories only.
	dir := filepath.Join(n.driver.Dir, "root/plugins/volumekit.io/fake/provisioned", name)
	entries, err := os.ReadDir(dir)
	require.NoError(n, err)
	require.NotEmpty(n, entries, "the pods have written")
	for _, e := range entries {
		require.NoError(n, os.Remove(filepath.Join(dir, e.Name())))
	}
	_, err = csipb.NewControllerClient(n.connect()).DeleteVolume(n.Context(), &csipb.DeleteVolumeRequest{VolumeId: volume.VolumeId})
	require.NoError(n, err)
	require.NoDirExists(n, dir)
}

// TestKubeNodeUsesDriver: a kubelet registers a served driver, stages its volume once and publishes it
// for two pods, grows and measures it; the driver is killed meanwhile. At the end nothing is left.
func TestKubeNodeUsesDriver(t *testing.T) {
	if !kubeserver.Isolate(t) {
		return
	}
	n := startKubeletNode(t)
	volume := n.createVolume("data")
	n.createPod("first", "data")
	n.createPod("second", "data")
	first, second := n.runningPod("first", "data"), n.runningPod("second", "data")
	n.requireMounts("data", first, second)
	n.requireExpanded("data", volume, 2*gibibyte)
	n.requireMeasured(second)

	n.driver.kill()
	n.driver.start(t)
	n.RequireDeleted(first)
	n.requireMounts("data", second)
	n.RequireDeleted(second)
	n.requireNothingLeft("data", volume)
}

// runManager runs a manager with the plugin and a registration on the kubelet's root until stop.
func (n *kubeletNode) runManager() (m *manager.Manager, stop func()) {
	n.Helper()
	cluster := kubeclient.New(n.clientset)
	source, err := node.NewSource(node.Config{Cluster: cluster, Node: types.NodeName(n.Name)})
	require.NoError(n, err)
	host, err := volume.NewHost(n.Context(), n.Root, volume.WithNodeName(types.NodeName(n.Name)))
	require.NoError(n, err)
	drivers, err := registration.New(registration.Config{Dir: n.driver.Registry})
	require.NoError(n, err)
	plugins, err := volume.NewVolumePluginMgr(n.Context(), host, csi.New(csi.Config{
		Mounter: n.Kernel, Drivers: drivers, Objects: driverObjects{n.clientset},
	}))
	require.NoError(n, err)
	status, err := node.NewClaimStatus(node.ClaimStatusConfig{Source: source})
	require.NoError(n, err)
	m, err = manager.New(manager.Config{
		Plugins: plugins, Mounter: n.Kernel, Pods: source, Claims: source, Expansions: status.Report, ControllerExpands: true,
	})
	require.NoError(n, err)
	ctx, cancel := context.WithCancel(n.Context())
	ended := make(chan error, 4)
	for _, run := range []func(context.Context) error{source.Run, drivers.Run, status.Run, m.Run} {
		go func() { ended <- run(ctx) }()
	}
	return m, func() {
		cancel()
		for range cap(ended) {
			<-ended
		}
	}
}

// driverObjects reads CSIDriver objects from the API server.
type driverObjects struct{ *kubernetes.Clientset }

// GetCSIDriver implements csi.DriverObjectGetter.
func (d driverObjects) GetCSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	return d.StorageV1().CSIDrivers().Get(ctx, name, metav1.GetOptions{})
}

// TestKubeletGivesDriverVolumes: a kubelet is killed together with the driver while pods use a volume,
// and starts again; then it is stopped, and a manager with our plugin and our registration takes the
// volume over, publishes it for another pod and grows it, and a kubelet takes all back. Each mount stays
// the same one, and nothing is left.
func TestKubeletGivesDriverVolumes(t *testing.T) {
	if os.Getenv("VOLUMEKIT_LONG") == "" {
		t.Skip("it needs a kubelet, which takes minutes to build: VOLUMEKIT_LONG=1")
	}
	if !kubeserver.Isolate(t) {
		return
	}
	n := startKubeletNode(t)
	volume := n.createVolume("data")
	n.createPod("first", "data")
	first := n.runningPod("first", "data")
	n.StopKubelet()
	n.driver.kill()
	require.NoError(t, n.StartKubelet())
	n.driver.start(t)
	n.createPod("second", "data")
	second := n.runningPod("second", "data")
	n.requireMounts("data", first, second)
	n.StopKubelet()
	before := n.mounts()

	m, stop := n.runManager()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, m.WaitForAttachAndMount(ctx, first))
	require.NoError(t, m.WaitForAttachAndMount(ctx, second))
	require.Equal(t, before, n.mounts())
	require.Empty(t, m.State().Leftovers)
	third := n.createPod("third", "data")
	n.Await("the manager publishes for the third pod", func() bool { return m.WaitForAttachAndMount(ctx, third) == nil })
	n.requireMounts("data", first, second, third)
	n.requireExpanded("data", volume, 2*gibibyte)
	stop()
	after := n.mounts()

	require.NoError(t, n.StartKubelet())
	n.runningPod("third", "data")
	require.Equal(t, after, n.mounts())
	for _, pod := range []*v1.Pod{first, second, third} {
		n.RequireDeleted(pod)
	}
	n.requireNothingLeft("data", volume)

	n.StopKubelet()
	m, stop = n.runManager()
	defer stop()
	n.Await("the manager has no volume", func() bool {
		state := m.State()
		return state.Populated && len(state.Volumes) == 0
	})
	require.Empty(t, m.State().Leftovers)
}

package csi_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/csitest/kubenode"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

const kubeletTestDriver = "fake.csi.volumekit.io"

// A kubeletNode is a real node with a served fake driver.
type kubeletNode struct {
	*kubenode.Node
	driver servedDriver
}

// startKubeletNode starts an API server, a node, and a driver that registers there.
func startKubeletNode(t *testing.T) *kubeletNode {
	t.Helper()
	n := &kubeletNode{Node: kubenode.Start(t)}
	n.driver = servedDriver{
		Name: kubeletTestDriver, Dir: filepath.Join(testbed.Dir(t), "driver"), Node: n.Name, Target: n.Root, Registry: n.Registry(),
	}
	no, yes := false, true
	n.StartDriver(n.driver.process(t), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: kubeletTestDriver},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: &no, PodInfoOnMount: &yes},
	})
	return n
}

// mounts returns the mounts below the kubelet's root and below the driver's directory, by their paths.
func (n *kubeletNode) mounts() map[string]mount.Info { return n.Mounts(n.driver.Dir) }

// requireMounts requires that the driver has mounted one volume once for the node, and for the pods.
func (n *kubeletNode) requireMounts(claim string, pods ...*v1.Pod) {
	n.Helper()
	n.RequirePublished(n.mounts(), 1, claim, pods...)
}

// requireExpanded expands a volume as the cluster's controller does, and waits until the node has
// done its part.
func (n *kubeletNode) requireExpanded(name string, volume *csipb.Volume, size int64) {
	n.Helper()
	ctx, core := n.Context(), n.Clientset.CoreV1()
	expanded, err := n.Controller().ControllerExpandVolume(ctx, &csipb.ControllerExpandVolumeRequest{
		VolumeId: volume.VolumeId, CapacityRange: &csipb.CapacityRange{RequiredBytes: size}, VolumeCapability: kubenode.Capability(),
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

// requireNothingLeft requires that all volumes are gone from the node, but for the driver's files.
func (n *kubeletNode) requireNothingLeft(name string, volume *csipb.Volume) {
	n.Helper()
	n.RequireUnstaged(n.driver.Dir)
	// The fake deletes empty directories only.
	dir := filepath.Join(n.driver.Dir, "root/plugins/volumekit.io/fake/provisioned", name)
	entries, err := os.ReadDir(dir)
	require.NoError(n, err)
	require.NotEmpty(n, entries, "the pods have written")
	for _, e := range entries {
		require.NoError(n, os.Remove(filepath.Join(dir, e.Name())))
	}
	_, err = n.Controller().DeleteVolume(n.Context(), &csipb.DeleteVolumeRequest{VolumeId: volume.VolumeId})
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
	volume := n.CreateVolume("data", nil)
	n.CreateWriter("first", "data")
	n.CreateWriter("second", "data")
	first, second := n.RunningWriter("first", "data"), n.RunningWriter("second", "data")
	n.requireMounts("data", first, second)
	n.requireExpanded("data", volume, 2*kubenode.Size)
	n.RequireMeasured(second)

	n.Driver.Kill()
	n.Driver.Start(t)
	n.RequireDeleted(first)
	n.requireMounts("data", second)
	n.RequireDeleted(second)
	n.requireNothingLeft("data", volume)
}

// runManager runs a manager with the plugin and a registration on the kubelet's root until stop.
func (n *kubeletNode) runManager() (m *manager.Manager, stop func()) {
	n.Helper()
	cluster := kubeclient.New(n.Clientset)
	source, err := node.NewSource(node.Config{Cluster: cluster, Node: types.NodeName(n.Name)})
	require.NoError(n, err)
	host, err := volume.NewHost(n.Context(), n.Root, volume.WithNodeName(types.NodeName(n.Name)))
	require.NoError(n, err)
	drivers, err := registration.New(registration.Config{Dir: n.Registry()})
	require.NoError(n, err)
	plugins, err := volume.NewVolumePluginMgr(n.Context(), host, csi.New(csi.Config{
		Mounter: n.Kernel, Drivers: drivers, Objects: driverObjects{n.Clientset},
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
	volume := n.CreateVolume("data", nil)
	n.CreateWriter("first", "data")
	first := n.RunningWriter("first", "data")
	n.StopKubelet()
	n.Driver.Kill()
	require.NoError(t, n.StartKubelet())
	n.Driver.Start(t)
	n.CreateWriter("second", "data")
	second := n.RunningWriter("second", "data")
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
	third := n.CreateWriter("third", "data")
	n.Await("the manager publishes for the third pod", func() bool { return m.WaitForAttachAndMount(ctx, third) == nil })
	n.requireMounts("data", first, second, third)
	n.requireExpanded("data", volume, 2*kubenode.Size)
	stop()
	after := n.mounts()

	require.NoError(t, n.StartKubelet())
	n.RunningWriter("third", "data")
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

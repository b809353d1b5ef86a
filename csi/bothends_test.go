package csi_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// bothEnds are a driver that serves a fake plugin at a socket, and a manager with the plugin that calls the
// driver, on one kernel in memory.
type bothEnds struct {
	*testing.T
	dir     string
	kernel  *mounttest.Fake
	pods    *manager.MemorySource
	manager *manager.Manager
	plugin  *csi.Plugin

	received   atomic.Int64 // bytes that the driver has received
	stopDriver func()
	mu         sync.Mutex               // guards the rest
	plugins    []*volumetest.FakePlugin // of each start of the driver
}

const bothEndsDriver = "disks.example.com"

// newBothEnds starts both. Change may change the configuration of the manager.
func newBothEnds(t *testing.T, change func(*manager.Config)) *bothEnds {
	t.Helper()
	e := &bothEnds{T: t, dir: simRoot(t), kernel: mounttest.NewFake(mount.Config{}), pods: manager.NewMemorySource()}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(e.dir)) })
	for _, sub := range []string{"/driver", "/node"} {
		require.NoError(t, os.Mkdir(e.dir+sub, 0o750))
	}
	e.startDriver()
	t.Cleanup(func() { e.stopDriver() })

	host, err := volume.NewHost(t.Context(), e.dir+"/node", volume.WithNodeName("node-1"))
	require.NoError(t, err)
	e.plugin = csi.New(csi.Config{Mounter: e.kernel, Drivers: oneDriver{Name: bothEndsDriver, Endpoint: e.endpoint(), Registration: 1, NodeID: "node-1"}})
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host, e.plugin)
	require.NoError(t, err)
	config := manager.Config{
		Plugins: plugins, Mounter: e.kernel, Pods: e.pods, Claims: e.pods, Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
	}
	if change != nil {
		change(&config)
	}
	e.manager, err = manager.New(config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.manager.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, e.plugin.Close())
	})
	return e
}

func (e *bothEnds) endpoint() string { return e.dir + "/csi.sock" }

// startDriver starts the driver as a new process would.
func (e *bothEnds) startDriver() {
	e.Helper()
	host, err := volume.NewHost(e.Context(), e.dir+"/driver", volume.WithTargetDirs(e.dir+"/node"), volume.WithNodeName("node-1"))
	require.NoError(e, err)
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: e.kernel, NoAttach: true})
	e.mu.Lock()
	e.plugins = append(e.plugins, plugin)
	e.mu.Unlock()
	listener, err := driver.Listen(e.Context(), e.endpoint())
	require.NoError(e, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- driver.Serve(ctx, meteredListener{listener, &e.received}, driver.Config{
			Name: bothEndsDriver, Version: "1", NodeID: "node-1", Plugin: plugin, Host: host,
		})
	}()
	e.stopDriver = func() {
		cancel()
		require.NoError(e, <-served)
		e.stopDriver = func() {}
	}
}

// A meteredListener counts the bytes that its connections receive.
type meteredListener struct {
	net.Listener
	received *atomic.Int64
}

// Accept implements [net.Listener].
func (l meteredListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return meteredConn{conn, l.received}, err
}

type meteredConn struct {
	net.Conn
	received *atomic.Int64
}

// Read implements [net.Conn].
func (c meteredConn) Read(p []byte) (n int, err error) {
	n, err = c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

// calls returns the number of calls of a method of the driver's plugin.
func (e *bothEnds) calls(method volumetest.Method) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, plugin := range e.plugins {
		n += plugin.Calls(method)
	}
	return n
}

// inject adds a fault to the driver's plugin.
func (e *bothEnds) inject(fault volumetest.Fault) { e.plugins[len(e.plugins)-1].Inject(fault) }

// await waits until a condition holds.
func (e *bothEnds) await(what string, holds func() bool) {
	e.Helper()
	require.Eventually(e, holds, 2*time.Minute, time.Millisecond, what)
}

// createClaims creates volumes, each with a claim of its name that is bound to it.
func (e *bothEnds) createClaims(names ...string) {
	e.Helper()
	connection, err := grpc.NewClient("unix:"+e.endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(e, err)
	defer func() { require.NoError(e, connection.Close()) }()
	for _, name := range names {
		created, err := csipb.NewControllerClient(connection).CreateVolume(e.Context(), &csipb.CreateVolumeRequest{
			Name: name, CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 20},
			VolumeCapabilities: []*csipb.VolumeCapability{{
				AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
				AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
			}},
		})
		require.NoError(e, err)
		size := v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(1<<20, resource.BinarySI)}
		modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		claim := &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: name, AccessModes: modes, Resources: v1.VolumeResourceRequirements{Requests: size}},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: size},
		}
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound}}
		pv.Spec.Capacity, pv.Spec.AccessModes = size, modes
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: bothEndsDriver, VolumeHandle: created.Volume.VolumeId, VolumeAttributes: created.Volume.VolumeContext}
		require.NoError(e, e.pods.SetVolume(pv))
		require.NoError(e, e.pods.SetClaim(claim))
	}
}

// podOfClaim returns a pod that uses a claim.
func podOfClaim(uid, claim string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "c", Image: "c", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
}

// requireUp waits until the volumes of the pods are set up.
func (e *bothEnds) requireUp(pods ...*v1.Pod) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), 2*time.Minute)
	defer cancel()
	for _, pod := range pods {
		require.NoError(e, e.manager.WaitForAttachAndMount(ctx, pod))
	}
}

// remove deletes pods.
func (e *bothEnds) remove(pods ...*v1.Pod) {
	for _, pod := range pods {
		e.pods.RemovePod(pod.UID)
	}
}

// requireDown waits until neither end has a mount or a file of a volume in use. Storage of volumes remains.
func (e *bothEnds) requireDown() {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(e, e.manager.WaitForAllPodsUnmount(ctx))
	require.EventuallyWithT(e, func(c *assert.CollectT) { assert.Empty(c, append(e.mounts(), e.files()...)) }, 2*time.Minute, 50*time.Millisecond)
}

// files returns the files of volumes in use: those of the node, and the driver's records about it.
func (e *bothEnds) files() (names []string) {
	for _, dir := range []string{"/node/pods", "/node/plugins/kubernetes.io/csi", "/driver/plugins/volumekit.io/csi/" + bothEndsDriver} {
		require.NoError(e, filepath.WalkDir(e.dir+dir, func(name string, entry os.DirEntry, err error) error {
			switch {
			case err != nil:
				return ignoreMissing(err)
			case entry.Name() == "controller": // records of created volumes
				return filepath.SkipDir
			case !entry.IsDir() || entry.Name() == "mount" || entry.Name() == "globalmount":
				names = append(names, name)
			}
			return nil
		}))
	}
	return names
}

// mounts returns the mount points of volumes.
func (e *bothEnds) mounts() (at []string) {
	e.Helper()
	table, err := e.kernel.List(context.Background())
	require.NoError(e, err)
	for _, m := range table {
		if strings.HasPrefix(m.Mountpoint, e.dir+"/") {
			at = append(at, m.Mountpoint)
		}
	}
	return at
}

// TestManyPodsOfAVolume: a volume is staged once and published for each of 64 pods, unpublished for each
// and unstaged once. The driver is restarted while it publishes and while it unpublishes.
func TestManyPodsOfAVolume(t *testing.T) {
	const count = 64
	e := newBothEnds(t, nil)
	e.createClaims("data")
	var pods []*v1.Pod
	for i := range count {
		pods = append(pods, podOfClaim(fmt.Sprint("pod-", i), "data"))
	}
	for _, half := range [][]*v1.Pod{pods[:count/2], pods[count/2:]} {
		require.NoError(t, e.pods.SetPod(half...))
		e.await("no volume is published", func() bool { return e.calls(volumetest.SetUp) > 0 })
		e.restartDriver()
	}
	e.requireUp(pods...)
	require.Equal(t, 1, e.calls(volumetest.MountDevice))
	require.GreaterOrEqual(t, e.calls(volumetest.SetUp), count)
	require.Zero(t, e.calls(volumetest.TearDown))
	targets := 0
	for _, at := range e.mounts() {
		if strings.HasPrefix(at, e.dir+"/node/pods/") {
			targets++
		}
	}
	require.Equal(t, count, targets)

	e.remove(pods[:count-1]...)
	e.await("no volume is unpublished", func() bool { return e.calls(volumetest.TearDown) > 0 })
	e.restartDriver()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, pod := range pods[:count-1] {
		require.NoError(t, e.manager.WaitForUnmount(ctx, pod))
	}
	require.Zero(t, e.calls(volumetest.UnmountDevice), "one pod has the volume")
	e.remove(pods...)
	e.requireDown()
	require.Equal(t, 1, e.calls(volumetest.UnmountDevice))
	require.Equal(t, 1, e.calls(volumetest.MountDevice))
}

// restartDriver ends the driver, and starts it again.
func (e *bothEnds) restartDriver() {
	e.Helper()
	e.stopDriver()
	e.startDriver()
}

// TestManyVolumes: many volumes, each of a pod of its own, are up, cost no call of the driver while nothing
// changes, and go down at once. They are 1,000, and 300 with -short.
func TestManyVolumes(t *testing.T) {
	testbed.RealTime(t)
	const period = 500 * time.Millisecond
	count := 1000
	if testing.Short() {
		count = 300
	}
	e := newBothEnds(t, func(c *manager.Config) {
		c.Resync, c.AttachCheck, c.Refresh = period, period, period
	})
	var pods []*v1.Pod
	var names []string
	for i := range count {
		names = append(names, fmt.Sprint("data-", i))
		pods = append(pods, podOfClaim(fmt.Sprint("pod-", i), names[i]))
	}
	e.createClaims(names...)
	require.NoError(t, e.pods.SetPod(pods...))
	e.requireUp(pods...)
	require.Equal(t, []int{count, count}, []int{e.calls(volumetest.MountDevice), e.calls(volumetest.SetUp)})

	received := e.received.Load()
	e.kernel.ResetLog()
	e.await("no full checks of all mounts", func() bool { return len(e.kernel.Log()) >= 2*count })
	// Frames of the connection itself may come late. A call has more than 10 bytes.
	require.Less(t, e.received.Load()-received, int64(10*count), "idle volumes cost calls")

	e.remove(pods...)
	e.requireDown()
	require.Equal(t, []int{count, count}, []int{e.calls(volumetest.TearDown), e.calls(volumetest.UnmountDevice)})
}

// spec returns the volume of a claim.
func (e *bothEnds) spec(claim string) *volume.Spec {
	e.Helper()
	pv, err := e.pods.GetPersistentVolume(e.Context(), claim)
	require.NoError(e, err)
	return volume.NewSpecFromPersistentVolume(pv, false)
}

// measure reads the statistics of a pod's volume.
func (e *bothEnds) measure(pod *v1.Pod, spec *volume.Spec, limit time.Duration) error {
	m, err := e.plugin.NewMounter(spec, pod)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(e.Context(), limit)
	defer cancel()
	_, err = m.GetMetrics(ctx)
	return err
}

// TestDriverHangsInStatistics: a measurement that hangs ends with its time, and costs neither another volume nor
// the next measurement.
func TestDriverHangsInStatistics(t *testing.T) {
	testbed.RealTime(t)
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%t", after), func(t *testing.T) {
			t.Parallel()
			e := newBothEnds(t, nil)
			e.createClaims("hangs", "works")
			hung, other := podOfClaim("hung", "hangs"), podOfClaim("other", "works")
			require.NoError(t, e.pods.SetPod(hung, other))
			e.requireUp(hung, other)
			e.inject(volumetest.Fault{Method: volumetest.GetMetrics, Delay: time.Hour, After: after, Times: 1})
			ended, spec := make(chan error, 1), e.spec("hangs")
			go func() { ended <- e.measure(hung, spec, 5*time.Second) }()
			e.await("no call hangs", func() bool { return e.calls(volumetest.GetMetrics) == 1 })
			require.NoError(t, e.measure(other, e.spec("works"), time.Minute))
			err := <-ended
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, volume.Transient, volume.KindOf(err), "a measurement changes nothing")
			require.NoError(t, e.measure(hung, spec, time.Minute))
			e.remove(hung, other)
			e.requireDown()
		})
	}
}

// TestDriverHangsInExpansion: an expansion that hangs ends with its time, costs no other volume, and is repeated.
func TestDriverHangsInExpansion(t *testing.T) {
	testbed.RealTime(t)
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%t", after), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			results := map[string][]error{}
			isGrown := func(claim string) bool {
				mu.Lock()
				defer mu.Unlock()
				n := len(results[claim])
				return n > 0 && results[claim][n-1] == nil
			}
			e := newBothEnds(t, func(c *manager.Config) {
				c.Timeout = 5 * time.Second // the other volume grows within this time, also on a busy machine
				c.Expansions = func(x manager.Expansion) {
					mu.Lock()
					defer mu.Unlock()
					results[x.Claim.Name] = append(results[x.Claim.Name], x.Err)
				}
			})
			e.createClaims("hangs", "works")
			hung, other := podOfClaim("hung", "hangs"), podOfClaim("other", "works")
			require.NoError(t, e.pods.SetPod(hung, other))
			e.requireUp(hung, other)
			grow := func(claim string) {
				pv := e.spec(claim).PersistentVolume.DeepCopy()
				pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(2<<20, resource.BinarySI)}
				require.NoError(t, e.pods.SetVolume(pv))
			}
			e.inject(volumetest.Fault{Method: volumetest.NodeExpand, Delay: time.Hour, After: after, Times: 1})
			grow("hangs")
			e.await("no call hangs", func() bool { return e.calls(volumetest.NodeExpand) >= 1 })
			grow("works")
			e.await("the other volume does not grow", func() bool { return isGrown("works") })
			e.await("the volume does not grow", func() bool { return isGrown("hangs") })
			e.remove(hung, other)
			e.requireDown()
			require.Equal(t, []error{nil}, results["works"])
			require.Equal(t, volume.Uncertain, volume.KindOf(results["hangs"][0]), "%v", results["hangs"][0])
		})
	}
}

// TestDriverHangs: a call that hangs ends with its time, costs no other volume, and is repeated until the
// volume is up, or down. The call takes effect, or does not.
func TestDriverHangs(t *testing.T) {
	testbed.RealTime(t)
	for _, method := range []volumetest.Method{volumetest.MountDevice, volumetest.SetUp, volumetest.TearDown, volumetest.UnmountDevice} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/after=%t", method, after), func(t *testing.T) {
				t.Parallel()
				e := newBothEnds(t, func(c *manager.Config) { c.Timeout = 500 * time.Millisecond })
				e.createClaims("hangs", "works")
				hung, other := podOfClaim("hung", "hangs"), podOfClaim("other", "works")
				begin := func() { require.NoError(t, e.pods.SetPod(hung)) }
				if method == volumetest.TearDown || method == volumetest.UnmountDevice {
					begin()
					e.requireUp(hung)
					begin = func() { e.remove(hung) }
				}
				before := e.calls(method)
				e.inject(volumetest.Fault{Method: method, Delay: time.Hour, After: after, Times: 1})
				begin()
				e.await("no call hangs", func() bool { return e.calls(method) > before })
				require.NoError(t, e.pods.SetPod(other))
				e.requireUp(other)
				if method == volumetest.MountDevice || method == volumetest.SetUp {
					e.requireUp(hung)
				}
				e.remove(hung, other)
				e.requireDown()
			})
		}
	}
}

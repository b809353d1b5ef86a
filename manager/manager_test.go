package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A node is a host with a fake kernel and a fake plugin, on which managers run, one
// after the other.
type node struct {
	*testing.T
	dir    string
	kernel *mounttest.Fake
	host   *volume.Host
	plugin *volumetest.FakePlugin
	source *manager.MemorySource
	config manager.Config

	mu     sync.Mutex
	events []manager.Event
}

func newNode(t *testing.T, fake volumetest.FakeConfig) *node {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/root", 0o755))
	n := &node{T: t, dir: dir, kernel: mounttest.NewFake(mount.Config{}), source: manager.NewMemorySource()}
	n.host, err = volume.NewHost(t.Context(), dir+"/root", volume.WithNodeName("node-1"))
	require.NoError(t, err)
	fake.Mounter = n.kernel
	n.plugin = volumetest.NewFakePlugin(fake)
	plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, n.plugin)
	require.NoError(t, err)
	n.config = manager.Config{
		Plugins: plugins, Mounter: n.kernel, Pods: n.source, Claims: n.source,
		Events: func(e manager.Event) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, e)
		},
	}
	return n
}

// podsAndClaims reports changes by the channel alone.
type podsAndClaims interface {
	manager.PodSource
	volume.ClaimReader
}

// read sets the source from which the manager reads pods, claims and volumes.
func (n *node) read(source podsAndClaims) { n.config.Pods, n.config.Claims = source, source }

// run runs a manager until the returned function is called.
func (n *node) run() (*manager.Manager, func()) {
	n.Helper()
	m, err := manager.New(n.config)
	require.NoError(n, err)
	return m, n.runManager(m)
}

func (n *node) runManager(m *manager.Manager) (stop func()) {
	ctx, cancel := context.WithCancel(n.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(n, <-ended)
	}
}

// runUp runs a manager, and waits until the volumes of the pods are up.
func (n *node) runUp(pods ...*v1.Pod) (*manager.Manager, func()) {
	n.Helper()
	m, stop := n.run()
	n.source.SetPod(pods...)
	for _, pod := range pods {
		n.up(m, pod)
	}
	return m, stop
}

// claim adds a persistent volume with a claim that is bound to it.
func (n *node) claim(name string, change ...func(*v1.PersistentVolume)) {
	n.Helper()
	disk := filepath.Join(n.dir, "disk-"+name)
	require.NoError(n, os.MkdirAll(disk, 0o755))
	pv := n.plugin.NewSpec(name, disk).PersistentVolume
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: name, UID: types.UID("claim-" + name)}
	for _, change := range change {
		change(pv)
	}
	n.source.SetVolume(pv)
	n.source.SetClaim(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name)},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: name, VolumeMode: pv.Spec.VolumeMode},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	})
}

func podWith(uid types.UID, claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: uid}}
	c := v1.Container{Name: "c"}
	for i, claim := range claims {
		name := fmt.Sprintf("v%d", i)
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod
}

// withDevices makes the pod's container use its volumes as devices.
func withDevices(pod *v1.Pod) *v1.Pod {
	c := &pod.Spec.Containers[0]
	for _, m := range c.VolumeMounts {
		c.VolumeDevices = append(c.VolumeDevices, v1.VolumeDevice{Name: m.Name, DevicePath: "/dev/" + m.Name})
	}
	c.VolumeMounts = nil
	return pod
}

// ofMode sets the mode of a volume.
func ofMode(mode v1.PersistentVolumeMode) func(*v1.PersistentVolume) {
	return func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &mode }
}

func (n *node) up(m *manager.Manager, pod *v1.Pod) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), time.Hour)
	defer cancel()
	require.NoError(n, m.WaitForAttachAndMount(ctx, pod))
}

func (n *node) down(m *manager.Manager, pod *v1.Pod) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), time.Hour)
	defer cancel()
	require.NoError(n, m.WaitForUnmount(ctx, pod))
}

// mountsBelow returns the mounts at paths that contain the part.
func (n *node) mountsBelow(part string) []mount.Info {
	n.Helper()
	table, err := n.kernel.List(n.Context())
	require.NoError(n, err)
	return slices.DeleteFunc(table, func(info mount.Info) bool { return !strings.Contains(info.Mountpoint, part) })
}

// mountCount returns the number of mounts.
func (n *node) mountCount() int {
	n.Helper()
	table, err := n.kernel.List(n.Context())
	require.NoError(n, err)
	return len(table) - 1 // the root
}

// TestSetUpAndTearDown: the volumes of two pods come up and are torn down, and leave no mount,
// directory or record.
func TestSetUpAndTearDown(t *testing.T) {
	for name, fake := range map[string]volumetest.FakeConfig{
		"attached and mounted once": {},
		"mounted once":              {NoAttach: true},
		"attached":                  {NoDeviceMount: true},
		"for each pod":              {NoAttach: true, NoDeviceMount: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, fake)
				n.claim("a")
				n.claim("b")
				one, two := podWith("1", "a", "b"), podWith("2", "a")
				m, stop := n.runUp(one, two)
				mounted := m.GetMountedVolumesForPod("1")
				require.Len(t, mounted, 2)
				require.DirExists(t, mounted["v0"].Path)
				require.Equal(t, !fake.NoAttach, m.VolumeIsAttached(mounted["v0"].Unique))
				require.Equal(t, map[bool]int{true: 0, false: 2}[fake.NoAttach], len(m.GetVolumesInUse()))
				require.Equal(t, map[bool]int{true: 3, false: 5}[fake.NoDeviceMount], n.mountCount())

				n.source.RemovePod("1")
				n.down(m, one)
				require.Equal(t, map[bool]int{true: 1, false: 2}[fake.NoDeviceMount], stableMountCount(n))
				n.source.RemovePod("2")
				require.NoError(t, m.WaitForAllPodsUnmount(t.Context()))
				require.Zero(t, stableMountCount(n))
				require.Empty(t, n.plugin.AttachedTo(filepath.Join(n.dir, "disk-a")))
				require.Empty(t, m.State().Volumes)
				stop()
				left, err := filepath.Glob(n.dir + "/root/pods/*")
				require.NoError(t, err)
				require.Empty(t, left)
				records, err := filepath.Glob(n.dir + "/root/plugins/volumekit.io/manager/volumes/*")
				require.NoError(t, err)
				require.Empty(t, records)
			})
		})
	}
}

// stableMountCount returns the number of mounts once the manager is idle.
func stableMountCount(n *node) int {
	synctest.Wait()
	return n.mountCount()
}

// TestRestartKeepsDesiredVolumes: a restart leaves the mounts of desired volumes as they are, and
// tears the others down.
func TestRestartKeepsDesiredVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("stays")
		n.claim("goes")
		stays, goes := podWith("1", "stays"), podWith("2", "goes")
		_, stop := n.runUp(stays, goes)
		before := n.mountsBelow("/1/")
		all := n.mountCount()
		stop()
		require.Equal(t, all, n.mountCount())

		n.source.RemovePod("2")
		m, stop := n.run()
		n.up(m, stays)
		n.down(m, goes)
		require.Equal(t, all-2, stableMountCount(n))
		require.Equal(t, before, n.mountsBelow("/1/"), "what is wanted was touched")
		stop()
	})
}

// TestFailureIsRetried: a failed set-up is retried after growing pauses, and reported once.
func TestFailureIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: errors.New("no luck"), Times: 3})
		m, stop := n.run()
		defer stop()
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := m.WaitForAttachAndMount(ctx, pod)
		require.ErrorContains(t, err, "no luck")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		begin := time.Now()
		n.up(m, pod)
		require.Equal(t, 2500*time.Millisecond, time.Since(begin), "500 ms, 1 s and 2 s, of which one second was over")
		synctest.Wait()
		require.Equal(t, "FailedMount", n.events[1].Reason)
		require.Len(t, n.events, 3, "attached, failed once in the same way, mounted")
	})
}

// perPod configures a plugin whose volumes are mounted for each pod alone.
var perPod = volumetest.FakeConfig{NoAttach: true, NoDeviceMount: true}

// TestPodsShareVolume: two pods share a volume, one of them read-only. A pod that is deleted and
// created again with another UID is another pod.
func TestPodsShareVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		writes, reads := podWith("1", "a"), podWith("2", "a")
		reads.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		m, stop := n.runUp(writes, reads)
		require.False(t, m.GetMountedVolumesForPod("1")["v0"].ReadOnly)
		require.True(t, m.GetMountedVolumesForPod("2")["v0"].ReadOnly)
		require.Contains(t, n.mountsBelow("/2/")[0].Flags.String(), "ro")

		again := podWith("3", "a")
		n.source.RemovePod("1")
		n.source.SetPod(again)
		n.up(m, again)
		n.down(m, writes)
		require.Empty(t, n.mountsBelow("/1/"))
		stop()
	})
}

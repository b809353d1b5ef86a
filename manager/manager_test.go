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
	n.host, err = volume.NewHost(dir+"/root", volume.WithNodeName("node-1"))
	require.NoError(t, err)
	fake.Mounter = n.kernel
	n.plugin = volumetest.NewFakePlugin(fake)
	plugins, err := volume.NewVolumePluginMgr(n.host, n.plugin)
	require.NoError(t, err)
	n.config = manager.Config{
		Plugins: plugins, Host: n.host, Mounter: n.kernel, Source: n.source,
		Events: func(e manager.Event) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, e)
		},
	}
	return n
}

// run runs a manager until the returned function is called.
func (n *node) run() (*manager.Manager, func()) {
	n.Helper()
	m, err := manager.New(n.config)
	require.NoError(n, err)
	ctx, cancel := context.WithCancel(n.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return m, func() {
		cancel()
		require.ErrorIs(n, <-ended, context.Canceled)
	}
}

// runUp runs a manager, and has the pods come up.
func (n *node) runUp(pods ...*v1.Pod) (*manager.Manager, func()) {
	n.Helper()
	m, stop := n.run()
	n.source.SetPod(pods...)
	for _, pod := range pods {
		n.up(m, pod)
	}
	return m, stop
}

// claim makes a volume with a claim to it.
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

// withDevices has the pod's container use its volumes as devices.
func withDevices(pod *v1.Pod) *v1.Pod {
	c := &pod.Spec.Containers[0]
	for _, m := range c.VolumeMounts {
		c.VolumeDevices = append(c.VolumeDevices, v1.VolumeDevice{Name: m.Name, DevicePath: "/dev/" + m.Name})
	}
	c.VolumeMounts = nil
	return pod
}

// ofMode is for volumes that are file systems, or devices.
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

// table returns the mounts at paths that hold a part.
func (n *node) table(part string) []mount.Info {
	n.Helper()
	table, err := n.kernel.List(n.Context())
	require.NoError(n, err)
	return slices.DeleteFunc(table, func(info mount.Info) bool { return !strings.Contains(info.Mountpoint, part) })
}

// mounts returns how much is mounted.
func (n *node) mounts() int {
	n.Helper()
	table, err := n.kernel.List(n.Context())
	require.NoError(n, err)
	return len(table) - 1 // the root
}

func TestUpAndDown(t *testing.T) {
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
				require.Equal(t, map[bool]int{true: 3, false: 5}[fake.NoDeviceMount], n.mounts())

				n.source.RemovePod("1")
				n.down(m, one)
				require.Equal(t, map[bool]int{true: 1, false: 2}[fake.NoDeviceMount], settled(n))
				n.source.RemovePod("2")
				require.NoError(t, m.WaitForAllPodsUnmount(t.Context()))
				require.Zero(t, settled(n))
				require.Empty(t, n.plugin.AttachedTo(filepath.Join(n.dir, "disk-a")))
				require.Empty(t, m.State().Volumes)
				stop()
				left, err := filepath.Glob(n.dir + "/root/pods/*")
				require.NoError(t, err)
				require.Empty(t, left)
				records, err := filepath.Glob(n.dir + "/root/plugins/volumekit.io~manager/volumes/*")
				require.NoError(t, err)
				require.Empty(t, records)
			})
		})
	}
}

// settled returns how much is mounted once nothing happens any more.
func settled(n *node) int {
	synctest.Wait()
	return n.mounts()
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("stays")
		n.claim("goes")
		stays, goes := podWith("1", "stays"), podWith("2", "goes")
		_, stop := n.runUp(stays, goes)
		before := n.table("/1/")
		all := n.mounts()
		stop()
		require.Equal(t, all, n.mounts())

		n.source.RemovePod("2")
		m, stop := n.run()
		n.up(m, stays)
		n.down(m, goes)
		require.Equal(t, all-2, settled(n))
		require.Equal(t, before, n.table("/1/"), "what is wanted was touched")
		stop()
	})
}

func TestFailureIsTriedAgain(t *testing.T) {
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

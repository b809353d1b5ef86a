package manager_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// requireNotDown asks for less than a second.
func (n *node) requireNotDown(m *manager.Manager, pod *v1.Pod, says string) {
	n.Helper()
	for _, wait := range []func(context.Context) error{
		func(ctx context.Context) error { return m.WaitForUnmount(ctx, pod) },
		m.WaitForAllPodsUnmount,
	} {
		ctx, cancel := context.WithTimeout(n.Context(), 100*time.Millisecond)
		require.ErrorContains(n, wait(ctx), says)
		cancel()
	}
}

// A stubborn plugin mounts, and is long in saying so, whatever its context.
type stubborn struct{ *volumetest.FakePlugin }

func (s stubborn) Unwrap() volume.VolumePlugin { return nil }

func (s stubborn) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := s.FakePlugin.NewMounter(spec, pod)
	return stubbornMounter{m}, err
}

type stubbornMounter struct{ volume.Mounter }

func (m stubbornMounter) SetUp(ctx context.Context, a volume.MounterArgs) error {
	err := m.Mounter.SetUp(ctx, a)
	time.Sleep(time.Minute)
	return err
}

// What is under way may be there: nobody is told that it is gone.
func TestUnderWayIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		plugins, err := volume.NewVolumePluginMgr(n.host, stubborn{n.plugin})
		require.NoError(t, err)
		n.config.Plugins = plugins
		n.claim("a")
		m, stop := n.run()
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		time.Sleep(time.Second)
		n.source.RemovePod("1")
		synctest.Wait()
		n.requireNotDown(m, pod, "under way")
		require.Len(t, m.State().Volumes, 1)
		n.down(m, pod)
		require.Zero(t, n.mounts())
		stop()
	})
}

type slowAttacher struct{}

func (slowAttacher) Attach(context.Context, manager.Attachment) (string, error) {
	time.Sleep(time.Minute)
	return "", nil
}
func (slowAttacher) Detach(context.Context, manager.Attachment) error { return nil }

func TestAttachingIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.config.Attacher = slowAttacher{}
		n.claim("a")
		m, stop := n.run()
		n.source.SetPod(podWith("1", "a"))
		time.Sleep(time.Second)
		n.source.RemovePod("1")
		synctest.Wait()
		require.Len(t, m.GetVolumesInUse(), 1)
		time.Sleep(2 * time.Minute)
		require.Empty(t, m.GetVolumesInUse())
		stop()
	})
}

type slowSource struct{ manager.Source }

func (s slowSource) Pods(ctx context.Context) ([]*v1.Pod, error) {
	time.Sleep(time.Minute)
	return s.Source.Pods(ctx)
}

// Before the source has said anything, and for pods that it has, nothing is gone.
func TestUnknownIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		n.config.Source = slowSource{n.source}
		m, stop := n.run()
		synctest.Wait()
		n.requireNotDown(m, pod, "has not said yet")
		time.Sleep(2 * time.Minute)
		n.requireNotDown(m, pod, "still has the pod") // whose claim is missing
		n.claim("a")
		n.up(m, pod)
		stop()
	})
}

// A pod that is found late is added to the volume that is known, and nothing is detached
// below what is not understood.
func TestFoundLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{NoDeviceMount: true})
		n.claim("a")
		one, two := podWith("1", "a"), podWith("2", "a")
		_, stop := n.runUp(one, two)
		stop()
		files, err := filepath.Glob(n.host.Root() + "/plugins/volumekit.io~manager/volumes/*.json")
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.WriteFile(files[0], nil, 0o600)) // torn
		n.source.RemovePod("1", "2")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Err: volume.ErrUncertain, Times: 1})
		m, stop := n.run()
		time.Sleep(time.Minute)
		left := append(n.table("/1/"), n.table("/2/")...)
		require.Len(t, left, 1)
		pod := map[bool]*v1.Pod{true: one, false: two}[strings.Contains(left[0].Mountpoint, "/1/")]
		n.requireNotDown(m, pod, "not understood")
		require.Zero(t, n.plugin.Calls(volumetest.Detach), "detached below what is not understood")
		time.Sleep(time.Hour)
		n.down(m, pod)
		time.Sleep(time.Second)
		require.Zero(t, n.mounts())
		require.Equal(t, 1, n.plugin.Calls(volumetest.Detach))
		stop()
	})
}

// A plugin that does not answer for one volume of an earlier run keeps no other waiting.
func TestRestoreBesideTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()
		n.plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Delay: 1000 * time.Hour, Times: 1})
		n.source.RemovePod("1")
		n.source.SetPod(podWith("2", "b"))
		m, stop := n.run()
		n.up(m, podWith("2", "b"))
		require.Len(t, m.State().Leftovers, 1)
		n.down(m, pod)
		stop()
	})
}

// A volume that has been made anew under its name is another one: the old one goes
// before it comes.
func TestMadeAnew(t *testing.T) {
	for name, change := range map[string]func(*v1.PersistentVolume){
		"another one": func(pv *v1.PersistentVolume) { pv.UID = "2" },
		"a device": func(pv *v1.PersistentVolume) {
			block := v1.PersistentVolumeBlock
			pv.Spec.VolumeMode = &block
			pv.UID = "1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{NoAttach: true})
				n.claim("a", func(pv *v1.PersistentVolume) { pv.UID = "1" })
				one, two := podWith("1", "a"), podWith("2", "a")
				m, stop := n.runUp(one)
				n.claim("a", change)
				if name == "a device" {
					withDevices(two)
				}
				n.source.SetPod(two)
				n.source.RemovePod("1")
				n.up(m, two)
				require.Equal(t, name == "a device", m.GetMountedVolumesForPod("2")["v0"].Block)
				require.Equal(t, 1, n.plugin.Calls(volumetest.UnmountDevice), "the old one is unmounted first")
				stop()
			})
		})
	}
}

// One claim by two names, once read-only, is refused rather than writable.
func TestReadOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []int{0, 1} {
			n := newNode(t, own)
			n.claim("a")
			m, stop := n.run()
			pod := podWith("1", "a", "a")
			pod.Spec.Volumes[first].PersistentVolumeClaim.ReadOnly = true
			n.source.SetPod(pod)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorContains(t, m.WaitForAttachAndMount(ctx, pod), "one of them is read-only")
			cancel()
			stop()
		}
	})
}

// A volume of a kind that grows, and that does not, is in order.
func TestNothingToGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", func(pv *v1.PersistentVolume) {
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		})
		n.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: volume.ErrNotSupported})
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		time.Sleep(time.Hour)
		require.Equal(t, 1, n.plugin.Calls(volumetest.NodeExpand))
		require.NotContains(t, n.reasons(), manager.VolumeResizeFailed)
		require.NoError(t, m.State().Volumes[0].Err)
		stop()
	})
}

// A device that was made ready for a pod that never got it is torn down.
func TestDeviceOfNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", ofMode(v1.PersistentVolumeBlock))
		pod := withDevices(podWith("1", "a"))
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUpDevice, After: true, Delay: time.Hour, Times: 1})
		_, stop := n.run()
		n.source.SetPod(pod)
		time.Sleep(time.Second)
		stop()
		n.source.RemovePod("1")
		m, stop := n.run()
		time.Sleep(time.Minute)
		require.Equal(t, 1, n.plugin.Calls(volumetest.TearDownDevice))
		require.Empty(t, m.State().Volumes)
		stop()
	})
}

// A record that names another place than the volume's is not believed.
func TestRecordOfAnotherPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{NoAttach: true})
		n.claim("a")
		n.claim("b")
		one, two := podWith("1", "a"), podWith("2", "b")
		_, stop := n.runUp(one, two)
		stop()
		victim := n.table("/pods/2/")[0].Mountpoint
		files, err := filepath.Glob(n.host.Root() + "/plugins/volumekit.io~manager/volumes/*.json")
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			before, rest, ok := strings.Cut(string(text), `"deviceMountPath":"`)
			require.True(t, ok)
			if strings.Contains(string(text), "disk-a") {
				_, after, _ := strings.Cut(rest, `"`)
				require.NoError(t, os.WriteFile(f, []byte(before+`"deviceMountPath":"`+victim+`"`+after), 0o600))
			}
		}
		n.source.RemovePod("1")
		m, stop := n.run()
		time.Sleep(time.Hour)
		require.Len(t, n.table("/pods/2/"), 1)
		n.up(m, two)
		require.ErrorContains(t, m.State().Leftovers[0].Err, "not its place")
		stop()
	})
}

// TestMadeAnewUnderAPod: nobody is told that a volume is up where another of its name is
// that was deleted. That stays as long as its pod.
func TestMadeAnewUnderAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", func(pv *v1.PersistentVolume) { pv.UID = "one" })
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		before := n.table("/")
		n.claim("a", func(pv *v1.PersistentVolume) { pv.UID = "two" })
		time.Sleep(time.Hour)
		require.ErrorContains(t, m.WaitForAttachAndMount(ended(t), pod), "of the same name that was deleted since")
		require.Empty(t, m.GetMountedVolumesForPod("1"))
		require.Equal(t, before, n.table("/"))
		require.ErrorContains(t, m.State().Volumes[0].Pods[0].Waits, "deleted since")
		require.Equal(t, []string{manager.FailedMount}, n.warnings())

		n.source.RemovePod("1")
		n.down(m, pod)
		n.source.SetPod(pod)
		n.up(m, pod)
		require.Equal(t, types.UID("two"), m.GetMountedVolumesForPod("1")["v0"].Spec.PersistentVolume.UID)
	})
}

package manager_test

import (
	"context"
	"errors"
	"sync/atomic"
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

// An expansion that failed is forgotten when the size is taken back.
func TestSizeIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		size := func(s string) func(*v1.PersistentVolume) {
			return func(pv *v1.PersistentVolume) {
				pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(s)}
			}
		}
		n.claim("a", size("1Gi"))
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		time.Sleep(time.Second)
		n.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: errors.New("no luck")})
		n.claim("a", size("2Gi"))
		time.Sleep(time.Minute)
		require.ErrorContains(t, m.State().Volumes[0].Err, "no luck")
		n.claim("a", size("1Gi"))
		time.Sleep(time.Second)
		require.NoError(t, m.State().Volumes[0].Err)
	})
}

// blankPlugin is one whose device only who may write can make ready.
type blankPlugin struct{ *volumetest.FakePlugin }

func (p blankPlugin) NewDeviceMounter() (volume.DeviceMounter, error) {
	m, err := p.FakePlugin.NewDeviceMounter()
	return blankMounter{m}, err
}

type blankMounter struct{ volume.DeviceMounter }

func (m blankMounter) MountDevice(ctx context.Context, spec *volume.Spec, path string, args volume.DeviceMounterArgs) error {
	if spec.IsReadOnly() {
		return errors.New("the device is blank, and this use of it is read-only")
	}
	return m.DeviceMounter.MountDevice(ctx, spec, path, args)
}

// Whoever of a reader and a writer comes first by UID, the device is made ready.
func TestReaderKeepsNoWriterWaiting(t *testing.T) {
	for _, uid := range []types.UID{"0", "9"} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, volumetest.FakeConfig{})
			n.claim("a")
			plugins, err := volume.NewVolumePluginMgr(n.host, blankPlugin{n.plugin})
			require.NoError(t, err)
			n.config.Plugins = plugins
			m, stop := n.run()
			defer stop()
			reader, writer := podWith(uid, "a"), podWith("5", "a")
			reader.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
			n.source.SetPod(reader)
			time.Sleep(time.Minute)
			require.ErrorContains(t, m.WaitForAttachAndMount(ended(t), reader), "blank")
			n.source.SetPod(writer)
			n.up(m, writer)
			n.up(m, reader)
		})
	}
}

// A muteSource cannot even say when it changes.
type muteSource struct{ *manager.MemorySource }

func (muteSource) Changed() <-chan struct{} { panic("no luck") }

func TestMuteSource(t *testing.T) {
	n := newNode(t, own)
	n.config.Source = muteSource{n.source}
	m, err := manager.New(n.config)
	require.NoError(t, err)
	require.ErrorContains(t, m.Run(t.Context()), "no luck")
}

// A brokenSource tells of a pod that is none, or panics.
type brokenSource struct {
	*manager.MemorySource
	pods   func() []*v1.Pod
	broken atomic.Bool
}

func (s *brokenSource) Pods(ctx context.Context) ([]*v1.Pod, error) {
	if s.broken.Load() {
		return s.pods(), nil
	}
	return s.MemorySource.Pods(ctx)
}

// A source that is broken has said nothing: what is up stays up, and it is asked again.
func TestBrokenSource(t *testing.T) {
	for name, pods := range map[string]func() []*v1.Pod{
		"nil pod": func() []*v1.Pod { return []*v1.Pod{nil} },
		"panic":   func() []*v1.Pod { panic("no luck") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, own)
				n.claim("a")
				source := &brokenSource{MemorySource: n.source, pods: pods}
				n.config.Source = source
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				defer stop()
				synctest.Wait()
				source.broken.Store(true)
				n.source.RemovePod("1")
				time.Sleep(time.Second)
				require.Equal(t, 1, n.mounts())
				synctest.Wait()
				source.broken.Store(false)
				n.down(m, pod)
			})
		})
	}
}

// Who waits is told why, also where nothing has failed; and so is who looks, and who reads
// the events, once.
func TestWaitsForAReason(t *testing.T) {
	onePod := func(pv *v1.PersistentVolume) {
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	life := func(uid types.UID) func(*v1.PersistentVolume) {
		return func(pv *v1.PersistentVolume) { pv.UID = uid }
	}
	for name, test := range map[string]struct {
		first, then func(*v1.PersistentVolume)
		reportFirst bool
		says        string
	}{
		"one pod":      {onePod, onePod, false, "already in use by another"},
		"remade":       {life("one"), life("two"), false, "a volume of the same name"},
		"not reported": {life("one"), life("one"), true, "not been reported"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				n.config.ReportFirst = test.reportFirst
				n.claim("a", test.first)
				m, stop := n.run()
				defer stop()
				one, two := podWith("1", "a"), podWith("2", "a")
				n.source.SetPod(one)
				time.Sleep(time.Second)
				n.claim("a", test.then)
				n.source.SetPod(two)
				time.Sleep(time.Hour) // and so many resyncs
				require.ErrorContains(t, m.WaitForAttachAndMount(ended(t), two), test.says)
				state := n.stateOf(m, "2")
				require.ErrorContains(t, state.Waits, test.says)
				require.NoError(t, state.Err)
				require.Equal(t, "pending", state.Phase())
				require.Equal(t, []string{manager.FailedMount}, n.reasonsOf(func(e manager.Event) bool {
					return e.PodUID == "2" && e.Volume == "v0" && e.Pod == two && errors.Is(e.Err, state.Waits)
				}))
				require.Len(t, n.reasonsOf(func(e manager.Event) bool { return e.PodUID == "2" }), 1)
				if test.reportFirst {
					m.MarkVolumesAsReportedInUse(m.GetVolumesInUse())
				} else {
					n.source.RemovePod("1")
				}
				n.up(m, two)
				require.NoError(t, n.stateOf(m, "2").Waits)
			})
		})
	}
}

// Who waits again for the same reason, after it need not any more, is told again.
func TestWaitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		remake := func(uid types.UID) {
			n.claim("a", func(pv *v1.PersistentVolume) { pv.UID = uid })
			time.Sleep(time.Minute)
		}
		remake("one")
		m, stop := n.runUp(podWith("1", "a"))
		defer stop()
		for told := 1; told <= 3; told++ {
			remake("two")
			require.ErrorContains(t, n.stateOf(m, "1").Waits, "a volume of the same name")
			require.Len(t, n.reasonsOf(func(e manager.Event) bool { return e.Reason == manager.FailedMount }), told)
			remake("one")
			require.NoError(t, n.stateOf(m, "1").Waits)
		}
	})
}

// stateOf returns the state of a pod's only volume.
func (n *node) stateOf(m *manager.Manager, pod types.UID) manager.PodState {
	n.Helper()
	for _, v := range m.State().Volumes {
		for _, state := range v.Pods {
			if state.Pod == pod {
				return state
			}
		}
	}
	n.Fatalf("pod %s has no volume", pod)
	return manager.PodState{}
}

// Before Run and after it nobody is told that a volume is up, or gone: it may have been,
// and who knows what has happened since.
func TestNotRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		up, gone := podWith("1", "a"), podWith("2", "a")
		stopped, err := manager.New(n.config)
		require.NoError(t, err)
		m, stop := n.runUp(up)
		n.down(m, gone)
		stop()
		for _, m := range []*manager.Manager{stopped, m} {
			require.ErrorIs(t, m.WaitForAttachAndMount(ended(t), up), manager.ErrNotRunning)
			require.ErrorIs(t, m.WaitForUnmount(ended(t), gone), manager.ErrNotRunning)
			require.ErrorIs(t, m.WaitForAllPodsUnmount(ended(t)), manager.ErrNotRunning)
		}
		require.Len(t, m.GetMountedVolumesForPod("1"), 1, "what was known last")
		again := make(chan error)
		go func() { again <- m.WaitForAttachAndMount(t.Context(), up) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		run := make(chan error)
		go func() { run <- m.Run(ctx) }()
		require.NoError(t, <-again, "the next run tells")
		cancel()
		require.ErrorIs(t, <-run, context.Canceled)
	})
}

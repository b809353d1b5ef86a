package manager_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A concurrencyPlugin counts its operations in flight. Those on volumes whose names begin with
// "slow" hang until their context ends; a tear-down takes a second.
type concurrencyPlugin struct {
	*volumetest.FakePlugin
	backend func(*volume.Spec) string

	mu           sync.Mutex
	running      map[string]int // operations in flight, by name
	maximum      map[string]int
	overlapError error
}

func (p *concurrencyPlugin) GetBackendName(spec *volume.Spec) (string, error) {
	if p.backend == nil {
		return "", nil
	}
	return p.backend(spec), nil
}

func (p *concurrencyPlugin) track(what string, other ...string) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[what]++
	p.maximum[what] = max(p.maximum[what], p.running[what])
	for _, o := range other {
		if p.running[o] > 0 {
			p.overlapError = errors.Join(p.overlapError, fmt.Errorf("%s beside %s", what, o))
		}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running[what]--
	}
}

func (p *concurrencyPlugin) inFlight(what string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[what]
}

func (p *concurrencyPlugin) maxInFlight(what string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.maximum[what]
}

func (p *concurrencyPlugin) overlaps() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.overlapError
}

func (p *concurrencyPlugin) waitIfSlow(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, "slow") {
		return nil
	}
	defer p.track("hang")()
	<-ctx.Done()
	return fmt.Errorf("%w: %w", volume.ErrTransient, ctx.Err())
}

func (p *concurrencyPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	return concurrencyMounter{m, p, spec.Name()}, err
}

type concurrencyMounter struct {
	volume.Mounter
	p    *concurrencyPlugin
	name string
}

func (m concurrencyMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	defer m.p.track("set up", "tear down "+m.name)()
	if err := m.p.waitIfSlow(ctx, m.name); err != nil {
		return err
	}
	return m.Mounter.SetUp(ctx, args)
}

func (p *concurrencyPlugin) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	u, err := p.FakePlugin.NewUnmounter(name, pod)
	return concurrencyUnmounter{u, p, name, pod}, err
}

type concurrencyUnmounter struct {
	volume.Unmounter
	p    *concurrencyPlugin
	name string
	pod  types.UID
}

func (u concurrencyUnmounter) TearDown(ctx context.Context) error {
	defer u.p.track("tear down "+u.name, "set up")()
	defer u.p.track("tear down " + u.name + " of " + string(u.pod))()
	time.Sleep(time.Second)
	return u.Unmounter.TearDown(ctx)
}

func (p *concurrencyPlugin) NewAttacher() (volume.Attacher, error) {
	a, err := p.FakePlugin.NewAttacher()
	return concurrencyAttacher{a, p}, err
}

type concurrencyAttacher struct {
	volume.Attacher
	p *concurrencyPlugin
}

func (a concurrencyAttacher) WaitForAttach(ctx context.Context, spec *volume.Spec, path string, pod *v1.Pod) (string, error) {
	defer a.p.track("attach")()
	if err := a.p.waitIfSlow(ctx, spec.Name()); err != nil {
		return "", err
	}
	return a.Attacher.WaitForAttach(ctx, spec, path, pod)
}

func newConcurrencyNode(t *testing.T, fake volumetest.FakeConfig, others ...volume.VolumePlugin) (*node, *concurrencyPlugin) {
	t.Helper()
	n := newNode(t, fake)
	p := &concurrencyPlugin{FakePlugin: n.plugin, running: map[string]int{}, maximum: map[string]int{}}
	var err error
	n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), n.host, append(others, p)...)
	require.NoError(t, err)
	return n, p
}

// addSlowPods adds pods with a slow volume each.
func (n *node) addSlowPods(count int) {
	n.Helper()
	for i := range count {
		name := fmt.Sprint("slow-", i)
		n.claim(name)
		require.NoError(n, n.source.SetPod(podWith(types.UID(name), name)))
	}
}

// TestSlowVolumesDelayNoFastOne: slow set-ups and slow attachments do not delay a fast volume of the
// same plugin.
func TestSlowVolumesDelayNoFastOne(t *testing.T) {
	for name, fake := range map[string]volumetest.FakeConfig{"set up": perPod, "attach": {}} {
		for _, slow := range []int{40, 320} {
			t.Run(fmt.Sprint(name, " ", slow), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n, p := newConcurrencyNode(t, fake)
					n.addSlowPods(slow)
					m, stop := n.run()
					synctest.Wait()
					require.Equal(t, slow, p.inFlight(name))
					begin := time.Now()
					n.claim("fast")
					fast := podWith("fast", "fast")
					require.NoError(t, n.source.SetPod(fast))
					n.up(m, fast)
					require.Zero(t, time.Since(begin), "of a clock that is not the machine's")
					stop()
				})
			})
		}
	}
}

// TestAttachHasOwnWorkers: slow attach operations occupy no worker of the plugin's other operations.
func TestAttachHasOwnWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, p := newConcurrencyNode(t, volumetest.FakeConfig{})
		n.config.Workers = 2
		n.claim("shared")
		m, stop := n.runUp(podWith("first", "shared"))
		n.addSlowPods(10)
		synctest.Wait()
		require.Equal(t, 2, p.inFlight("attach"))
		begin := time.Now()
		next := podWith("next", "shared")
		require.NoError(t, n.source.SetPod(next))
		n.up(m, next)
		require.Zero(t, time.Since(begin), "of a clock that is not the machine's")
		stop()
	})
}

// TestWorkersPerPlugin: a plugin whose workers are busy delays no other plugin. Slow operations do
// not occupy a worker, up to a multiple of the workers.
func TestWorkersPerPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := volumetest.NewFakePlugin(volumetest.FakeConfig{Name: "volumekit.io/other"})
		n, p := newConcurrencyNode(t, perPod, other)
		n.config.Workers = 2
		n.addSlowPods(40)
		m, stop := n.run()
		synctest.Wait()
		require.Equal(t, 2, p.inFlight("set up"))
		n.claim("b", func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeSource = other.NewSpec("b", n.dir+"/disk-b").PersistentVolume.Spec.PersistentVolumeSource
		})
		pod := podWith("1", "b")
		require.NoError(t, n.source.SetPod(pod))
		synctest.Wait()
		requireStarted(t, m, "volumekit.io/other")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, 4, p.inFlight("set up"))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, 16, p.inFlight("set up"), "each may hold a thread")
		stop()
		require.Equal(t, 16, p.maxInFlight("set up"))
	})
}

// requireStarted requires that an operation of the plugin has started.
func requireStarted(t *testing.T, m *manager.Manager, plugin string) {
	t.Helper()
	for _, v := range m.State().Volumes {
		if v.Plugin == plugin {
			require.True(t, v.Operation != "" || v.Err != nil || v.Attached == "present" || v.Pods[0].State == "present", "%+v", v)
			return
		}
	}
	require.Fail(t, "it has no volume")
}

// TestWorkersPerBackend: only BackendWorkers operations on a server that does not respond run at the
// same time. They leave the plugin's other workers free, and each volume has its turn.
func TestWorkersPerBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, p := newConcurrencyNode(t, perPod)
		p.backend = func(spec *volume.Spec) string {
			server, _, _ := strings.Cut(spec.Name(), "-")
			return server
		}
		n.config.Workers, n.config.BackendWorkers, n.config.Timeout = 8, 3, time.Minute
		n.addSlowPods(40)
		m, stop := n.run()
		synctest.Wait()
		require.Equal(t, 3, p.inFlight("set up"))
		begin := time.Now()
		n.claim("fast")
		fast := podWith("fast", "fast")
		require.NoError(t, n.source.SetPod(fast))
		n.up(m, fast)
		require.Zero(t, time.Since(begin), "of a clock that is not the machine's")
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		require.Equal(t, 3, p.maxInFlight("hang"))
		for _, v := range m.State().Volumes {
			require.True(t, v.Unique == "volumekit.io/fake/fast" || v.Pods[0].Pod == "fast" || v.Pods[0].Err != nil, "%+v was not tried", v)
		}
		stop()
	})
}

// TestConcurrentTearDowns: a volume is torn down in several pods at the same time, up to
// BackendWorkers, once in each pod, and is not set up in another pod meanwhile.
func TestConcurrentTearDowns(t *testing.T) {
	for name, fake := range map[string]volumetest.FakeConfig{"attached": {}, "mounted once": {NoAttach: true}, "attached alone": {NoDeviceMount: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, p := newConcurrencyNode(t, fake)
				n.claim("a")
				var pods []*v1.Pod
				for i := range 100 {
					pods = append(pods, podWith(types.UID(fmt.Sprint(i)), "a"))
				}
				m, stop := n.runUp(pods...)
				defer stop()
				begin := time.Now()
				for _, pod := range pods[:99] {
					n.source.RemovePod(pod.UID)
				}
				late := podWith("late", "a")
				require.NoError(t, n.source.SetPod(late))
				for _, pod := range pods[:99] {
					n.down(m, pod)
				}
				require.Equal(t, 4*time.Second, time.Since(begin), "99 pods, 32 at a time, of a clock that is not the machine's")
				n.up(m, late)
				n.up(m, pods[99])
				require.Equal(t, 32, p.maxInFlight("tear down a"))
				for _, pod := range pods[:99] {
					require.Equal(t, 1, p.maxInFlight("tear down a of "+string(pod.UID)))
				}
				require.NoError(t, p.overlaps())
				n.source.RemovePod("99", "late")
				require.NoError(t, m.WaitForAllPodsUnmount(t.Context()))
				require.Zero(t, stableMountCount(n))
				require.Empty(t, m.State().Volumes)
			})
		})
	}
}

// TestHangingTearDownDelaysNoOther: a tear-down that hangs or fails delays no tear-down in another
// pod.
func TestHangingTearDownDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, p := newConcurrencyNode(t, volumetest.FakeConfig{})
		n.claim("a")
		var pods []*v1.Pod
		for i := range 10 {
			pods = append(pods, podWith(types.UID(fmt.Sprint(i)), "a"))
		}
		m, stop := n.runUp(pods...)
		defer stop()
		n.plugin.Inject(volumetest.Fault{Method: volumetest.TearDown, Delay: 5 * time.Minute, Err: errors.New("no luck"), Times: 2})
		begin := time.Now()
		for _, pod := range pods[:9] {
			n.source.RemovePod(pod.UID)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		left := 0
		for _, v := range m.State().Volumes {
			left += len(v.Pods)
		}
		require.Equal(t, 3, left, "two that hang, and one that is wanted")
		for _, pod := range pods[:9] {
			n.down(m, pod)
		}
		require.Less(t, time.Since(begin), 6*time.Minute, "of a clock that is not the machine's")
		require.NoError(t, p.overlaps())
	})
}

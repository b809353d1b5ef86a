package manager_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A countingSource counts its reads. It returns single pods by readPod, or else from the embedded
// source.
type countingSource struct {
	*manager.MemorySource

	mu      sync.Mutex
	readPod func(types.UID) (*v1.Pod, error)
	counts  map[string]int
}

func newCountingSource(n *node) *countingSource {
	s := &countingSource{MemorySource: n.source, counts: map[string]int{}}
	n.read(s)
	return s
}

func (s *countingSource) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// drainCounts returns the reads since its last call.
func (s *countingSource) drainCounts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.counts
	s.counts = map[string]int{}
	return counts
}

func (s *countingSource) setPodReader(pod func(types.UID) (*v1.Pod, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readPod = pod
}

func (s *countingSource) Pods(ctx context.Context) ([]*v1.Pod, error) {
	s.count("pods")
	return s.MemorySource.Pods(ctx)
}

func (s *countingSource) Pod(ctx context.Context, uid types.UID) (*v1.Pod, error) {
	s.count("pod")
	s.mu.Lock()
	answer := s.readPod
	s.mu.Unlock()
	if answer != nil {
		return answer(uid)
	}
	return s.MemorySource.Pod(ctx, uid)
}

func (s *countingSource) GetPersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	s.count("claim")
	return s.MemorySource.GetPersistentVolumeClaim(ctx, namespace, name)
}

func (s *countingSource) GetPersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	s.count("volume")
	return s.MemorySource.GetPersistentVolume(ctx, name)
}

// An outageSource fails to return volumes during an outage.
type outageSource struct {
	*manager.MemorySource
	outage
}

func (s *outageSource) GetPersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.MemorySource.GetPersistentVolume(ctx, name)
}

// TestUnresolvedVolumeIsRetried: a volume that could not be read is read again after its backoff, without a change of
// its pod and without a resync.
func TestUnresolvedVolumeIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.config.Resync = -1
		n.claim("a")
		source := &outageSource{MemorySource: n.source}
		n.read(source)
		m, stop := n.runUp()
		defer stop()
		synctest.Wait()
		source.failures.Store(2)
		n.source.SetPod(podWith("1", "a"))
		time.Sleep(1499 * time.Millisecond)
		require.Empty(t, m.GetMountedVolumesForPod("1"))
		time.Sleep(time.Millisecond) // 500 ms and 1 s
		synctest.Wait()
		require.Len(t, m.GetMountedVolumesForPod("1"), 1)
	})
}

// TestUnreadablePodKeepsVolumes: a pod whose read fails keeps its volumes, delays no other pod, and
// is read again.
func TestUnreadablePodKeepsVolumes(t *testing.T) {
	for name, answer := range map[string]func(types.UID) (*v1.Pod, error){
		"an error":    func(types.UID) (*v1.Pod, error) { return nil, errOutage },
		"nil":         func(types.UID) (*v1.Pod, error) { return nil, nil },
		"another pod": func(types.UID) (*v1.Pod, error) { return podWith("other"), nil },
		"a panic":     func(types.UID) (*v1.Pod, error) { panic("no luck") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.config.Resync = -1
				n.claim("a")
				n.claim("b")
				source := newCountingSource(n)
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				defer stop()
				source.setPodReader(func(uid types.UID) (*v1.Pod, error) {
					if uid == "1" {
						return answer(uid)
					}
					return n.source.Pod(n.Context(), uid)
				})
				n.source.RemovePod("1")
				other := podWith("2", "b")
				n.source.SetPod(other)
				n.up(m, other)
				source.drainCounts()
				time.Sleep(time.Hour)
				require.Len(t, n.mountsBelow("/1/"), 1, "it stays")
				require.InDelta(t, 33, source.drainCounts()["pod"], 7, "each 2 minutes")
				source.setPodReader(nil)
				n.down(m, pod)
			})
		})
	}
}

// TestSlowPodDelaysNoOther: a pod whose read is slow delays no other pod.
func TestSlowPodDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.claim("b")
		source := newCountingSource(n)
		m, stop := n.runUp()
		defer stop()
		synctest.Wait()
		speak := make(chan struct{})
		source.setPodReader(func(uid types.UID) (*v1.Pod, error) {
			if uid == "1" {
				<-speak
			}
			return n.source.Pod(n.Context(), uid)
		})
		slow, quick := podWith("1", "a"), podWith("2", "b")
		begin := time.Now()
		n.source.SetPod(slow, quick)
		n.up(m, quick)
		require.Less(t, time.Since(begin), 2*time.Second)
		close(speak)
		n.up(m, slow)
		require.Less(t, time.Since(begin), 2*time.Second)
	})
}

// TestUnreportedChangeWaitsForResync: an unreported change is applied at the next resync. A change
// that is reported twice, or that names unused objects, has no further effect.
func TestUnreportedChangeWaitsForResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		source := &manualSource{MemorySource: n.source}
		n.read(source)
		pod := podWith("1", "a")
		m, stop := n.run()
		require.NoError(t, n.source.SetPod(pod))
		source.report(manager.Change{Pods: []types.UID{"1", "1", "none"}, Claims: []types.NamespacedName{{Name: "none"}}, Volumes: []string{"none"}})
		source.report(manager.Change{Pods: []types.UID{"1"}})
		n.up(m, pod)
		require.Equal(t, 1, source.subscribers(), "one for pods and claims")
		source.report(manager.Change{})
		n.source.RemovePod("1")
		time.Sleep(9 * time.Minute)
		require.Len(t, n.mountsBelow("/1/"), 1, "the change is not reported")
		time.Sleep(2 * time.Minute)
		require.Empty(t, n.mountsBelow("/1/"), "the resync applies it")

		require.NoError(t, n.source.SetPod(pod))
		source.report(manager.Change{Everything: true})
		n.up(m, pod)
		stop()
		require.Zero(t, source.subscribers())
	})
}

// TestClaimChangeReadsNoPod: a change that Config.Claims reports costs no read of a pod.
func TestClaimChangeReadsNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.config.Resync = -1
		n.claim("a")
		source, claims := newCountingSource(n), manager.NewMemorySource()
		n.config.Claims = claims
		pod := podWith("1", "a")
		m, stop := n.run()
		defer stop()
		require.NoError(t, n.source.SetPod(pod))
		time.Sleep(time.Second)
		require.Error(t, m.WaitForAttachAndMount(endedContext(t), pod))
		source.drainCounts()

		pv, err := n.source.GetPersistentVolume(t.Context(), "a")
		require.NoError(t, err)
		claim, err := n.source.GetPersistentVolumeClaim(t.Context(), "default", "a")
		require.NoError(t, err)
		require.NoError(t, claims.SetVolume(pv))
		require.NoError(t, claims.SetClaim(claim))
		n.up(m, pod)
		require.Empty(t, source.drainCounts())
	})
}

// A manualSource reports only the changes that the test passes on.
type manualSource struct {
	*manager.MemorySource
	mu        sync.Mutex
	callbacks map[int]func(manager.Change)
	lastKey   int
}

func (s *manualSource) Subscribe(changed func(manager.Change)) (unsubscribe func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callbacks == nil {
		s.callbacks = map[int]func(manager.Change){}
	}
	s.lastKey++
	at := s.lastKey
	s.callbacks[at] = changed
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.callbacks, at)
	}
}

func (s *manualSource) subscribers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.callbacks)
}

func (s *manualSource) report(change manager.Change) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, changed := range s.callbacks {
		changed(change)
	}
}

// A countingKernel counts its queries.
type countingKernel struct {
	*mounttest.Fake
	queries atomic.Int64
}

func (k *countingKernel) MountID(ctx context.Context, path string) (uint64, error) {
	k.queries.Add(1)
	return k.Fake.MountID(ctx, path)
}

func (k *countingKernel) List(ctx context.Context) ([]mount.Info, error) {
	k.queries.Add(1)
	return k.Fake.List(ctx)
}

// A countingPlugin counts the manager's calls.
type countingPlugin struct {
	*volumetest.FakePlugin
	calls atomic.Int64
}

func (p *countingPlugin) CanSupport(spec *volume.Spec) bool {
	p.calls.Add(1)
	return p.FakePlugin.CanSupport(spec)
}

func (p *countingPlugin) GetVolumeName(spec *volume.Spec) (string, error) {
	p.calls.Add(1)
	return p.FakePlugin.GetVolumeName(spec)
}

func (p *countingPlugin) CanAttach(ctx context.Context, spec *volume.Spec) (bool, error) {
	p.calls.Add(1)
	return p.FakePlugin.CanAttach(ctx, spec)
}

func (p *countingPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	p.calls.Add(1)
	return p.FakePlugin.NewMounter(spec, pod)
}

// TestCostOfOneMorePod: the number of calls of the source, the kernel and the plugin for one more
// pod, and of planned volumes, does not depend on the number of pods.
func TestCostOfOneMorePod(t *testing.T) {
	var first map[string]int
	many := 300
	if testbed.Long() {
		many = 10_000
	}
	for _, there := range []int{10, many} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, perPod)
			n.config.Resync = -1
			source := newCountingSource(n)
			plugin := &countingPlugin{FakePlugin: n.plugin}
			var err error
			n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), n.host, plugin)
			require.NoError(t, err)
			counted := &countingKernel{Fake: n.kernel}
			n.config.Mounter = counted
			var pods []*v1.Pod
			for i := range there {
				n.claim(fmt.Sprint("c", i))
				pods = append(pods, podWith(types.UID(fmt.Sprint(i)), fmt.Sprint("c", i)))
			}
			m, stop := n.runUp(pods...)
			defer stop()
			n.claim("more")
			time.Sleep(time.Minute)
			source.drainCounts()
			counted.queries.Store(0)
			planned := m.PlanCount()
			plugin.calls.Store(0)

			pod := podWith("more", "more")
			require.NoError(t, n.source.SetPod(pod))
			n.up(m, pod)
			time.Sleep(time.Minute)
			counts := source.drainCounts()
			counts["kernel"] = int(counted.queries.Load())
			counts["planned"] = m.PlanCount() - planned
			counts["plugin"] = int(plugin.calls.Load())
			if first == nil {
				first = counts
			}
			require.Equal(t, first, counts, "%d pods", there)
			require.Zero(t, counts["pods"])
			require.Equal(t, 1, counts["pod"])
			require.LessOrEqual(t, counts["planned"], 4)
		})
	}
	t.Log(first)
}

// TestForeignMountsCostNoCheck: a foreign mount elsewhere causes no check and no plan; one that hides a
// volume causes a check of that volume.
func TestForeignMountsCostNoCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.config.Resync = -1
		counted := &countingKernel{Fake: n.kernel}
		n.config.Mounter = counted
		var pods []*v1.Pod
		for i := range 20 {
			n.claim(fmt.Sprint("c", i))
			pods = append(pods, podWith(types.UID(fmt.Sprint(i)), fmt.Sprint("c", i)))
		}
		m, stop := n.runUp(pods...)
		defer stop()
		looks := func(do func()) (questions, planned int) {
			time.Sleep(time.Minute)
			counted.queries.Store(0)
			before := m.PlanCount()
			do()
			time.Sleep(time.Minute)
			return int(counted.queries.Load()), m.PlanCount() - before
		}
		require.NoError(t, os.MkdirAll(n.dir+"/elsewhere", 0o755))
		questions, planned := looks(func() {
			for range 100 {
				require.NoError(t, n.kernel.Mount(t.Context(), mount.Request{Source: "foreign", FSType: "tmpfs", Target: n.dir + "/elsewhere"}))
				require.NoError(t, n.kernel.Unmount(t.Context(), n.dir+"/elsewhere"))
			}
		})
		require.Zero(t, questions)
		require.Zero(t, planned)

		target := n.mountsBelow("/7/")[0].Mountpoint
		for what, do := range map[string]func(){
			"over it":      func() { n.mountOver(target) },
			"it is gone":   func() { require.NoError(t, n.kernel.Unmount(t.Context(), target)) },
			"over its pod": func() { n.mountOver(n.dir + "/root/pods/7") },
		} {
			questions, _ := looks(do)
			require.NotZero(t, questions, what)
			require.Less(t, questions, 10, what)
			require.NoError(t, n.kernel.UnmountTree(t.Context(), n.dir+"/root/pods/7"))
			if len(n.mountsBelow("/7/")) > 0 {
				require.NoError(t, n.kernel.UnmountTree(t.Context(), target))
			}
			time.Sleep(10 * time.Minute)
			require.Len(t, n.mountsBelow("/7/"), 1, "%s: it is mounted again", what)
		}
		questions, _ = looks(func() { n.mountOver(n.dir + "/root/pods") })
		require.GreaterOrEqual(t, questions, 20, "all are hidden")
	})
}

// mountOver mounts something else over a path.
func (n *node) mountOver(target string) {
	n.Helper()
	require.NoError(n, n.kernel.Mount(n.Context(), mount.Request{Source: "foreign", FSType: "tmpfs", Target: target, Stack: true}))
}

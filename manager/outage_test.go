package manager_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// A shakySource fails to tell of so many volumes.
type shakySource struct {
	*manager.MemorySource
	fail  atomic.Int32
	asked atomic.Int32
}

func (s *shakySource) Pods(ctx context.Context) ([]*v1.Pod, error) {
	s.asked.Add(1)
	return s.MemorySource.Pods(ctx)
}

var errAway = errors.New("the API server is away")

func (s *shakySource) PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	if s.fail.Add(-1) >= 0 {
		return nil, errAway
	}
	return s.MemorySource.PersistentVolume(ctx, name)
}

func newShakyNode(t *testing.T, fake volumetest.FakeConfig) (*node, *shakySource) {
	n := newNode(t, fake)
	source := &shakySource{MemorySource: n.source}
	n.config.Source = source
	return n, source
}

// While the source cannot be asked what is up stays up, is said to be, and is repaired;
// and the error is told.
func TestOutageKeepsWhatIsUp(t *testing.T) {
	for name, later := range map[string]time.Duration{"at once": 0, "after a resync": 11 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, source := newShakyNode(t, own)
				n.claim("a")
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				defer stop()
				source.fail.Store(1000)
				n.source.SetPod(podWith("2")) // anything changes
				time.Sleep(later + time.Second)
				require.Len(t, m.GetMountedVolumesForPod("1"), 1)
				state := m.State()
				require.Equal(t, "mounted", state.Volumes[0].Pods[0].Phase())
				require.Len(t, state.Failed, 1)
				require.ErrorIs(t, state.Failed[0].Err, errAway)
				n.up(m, pod)
				unwanted := m.WaitForUnmount(ended(t), pod)
				var left *manager.WaitError
				require.ErrorAs(t, unwanted, &left)
				require.Len(t, left.Volumes, 1)

				for _, mounted := range n.table("/1/") {
					require.NoError(t, n.kernel.Unmount(t.Context(), mounted.Mountpoint))
				}
				time.Sleep(5 * time.Second)
				require.Len(t, n.table("/1/"), 1, "it was not repaired")
				n.source.RemovePod("1")
				n.down(m, pod)
				require.Zero(t, settled(n))
			})
		})
	}
}

// ended is a context that has ended: who waits with it only asks.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A pod that has another claim now does not get what was behind the last one.
func TestOutageWithAnotherClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, source := newShakyNode(t, own)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		source.fail.Store(1000)
		other := podWith("1", "b")
		n.source.SetPod(other)
		time.Sleep(time.Second)
		require.ErrorIs(t, m.WaitForAttachAndMount(ended(t), other), errAway)
	})
}

// A claim that was made anew for another volume has none of the last one's, though the
// other cannot be read; what is up stays until the pod goes.
func TestOutageWithAnotherVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, source := newShakyNode(t, own)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		claim, err := n.source.PersistentVolumeClaim(t.Context(), "default", "b")
		require.NoError(t, err)
		claim = claim.DeepCopy()
		claim.Name = "a"
		source.fail.Store(1 << 20)
		n.source.SetClaim(claim)
		time.Sleep(time.Hour) // and so many resyncs
		require.ErrorIs(t, m.WaitForAttachAndMount(ended(t), pod), errAway)
		require.Empty(t, m.GetMountedVolumesForPod("1"))
		require.Len(t, n.table("/1/"), 1, "it stays")
		require.Error(t, m.WaitForUnmount(ended(t), pod))

		source.fail.Store(0)
		time.Sleep(5 * time.Minute)
		require.ErrorContains(t, m.WaitForAttachAndMount(ended(t), pod), "bound to another volume now")
		require.Contains(t, n.table("/1/")[0].Root, "disk-a")
		n.source.RemovePod("1")
		n.down(m, pod)
		n.source.SetPod(pod)
		n.up(m, pod)
		require.Equal(t, "b", m.GetMountedVolumesForPod("1")["v0"].Spec.Name())
		require.Len(t, n.table("/1/"), 1)
		require.Contains(t, n.table("/1/")[0].Root, "disk-b")
	})
}

// While it cannot be found out what a pod wants nothing is released of what is on its way
// up for it: neither what is there by now, nor what is being done, nor what an earlier
// run has left.
func TestOutageKeepsWhatComesUp(t *testing.T) {
	away := func(n *node, source *shakySource) { source.fail.Store(1000) }
	for name, test := range map[string]struct {
		fault   volumetest.Fault
		fail    func(*node, *shakySource)
		restart bool
	}{
		"no answer":                {volumetest.Fault{Method: volumetest.SetUp, Err: errAway}, away, false},
		"no answer from the start": {volumetest.Fault{Method: volumetest.SetUp, Err: errAway}, away, true},
		"a lost claim":             {volumetest.Fault{Method: volumetest.SetUp, Err: errAway}, loseClaim, false},
		"a lost claim meanwhile":   {volumetest.Fault{Method: volumetest.MountDevice, Delay: 4 * time.Second}, loseClaim, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, source := newShakyNode(t, volumetest.FakeConfig{})
				n.claim("a")
				n.plugin.Inject(test.fault)
				m, stop := n.run()
				pod := podWith("1", "a")
				n.source.SetPod(pod)
				time.Sleep(2 * time.Second)
				test.fail(n, source)
				n.source.SetPod(podWith("2")) // anything changes
				if test.restart {
					stop()
					m, stop = n.run()
				}
				defer stop()
				disk := filepath.Join(n.dir, "disk-a")
				time.Sleep(5 * time.Second)
				require.Len(t, m.State().Volumes, 1)
				require.NotEmpty(t, n.plugin.AttachedTo(disk))
				require.Equal(t, 1, n.mounts())
				n.source.RemovePod("1")
				n.down(m, pod)
				require.Zero(t, settled(n))
				require.Empty(t, n.plugin.AttachedTo(disk))
			})
		})
	}
}

// loseClaim has the source say that the claim cannot be used.
func loseClaim(n *node, _ *shakySource) {
	claim, err := n.source.PersistentVolumeClaim(n.Context(), "default", "a")
	require.NoError(n, err)
	lost := claim.DeepCopy()
	lost.Status.Phase = v1.ClaimLost
	n.source.SetClaim(lost)
}

// A pod whose claim is never there keeps no other waiting for its second try; and is not
// asked for more often than the backoff says.
func TestBackoffOfPopulating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, source := newShakyNode(t, own)
		n.claim("a")
		m, stop := n.run()
		defer stop()
		n.source.SetPod(podWith("9", "never-there"))
		time.Sleep(9 * time.Minute)
		source.fail.Store(2)
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		begin := time.Now()
		n.up(m, pod)
		require.Equal(t, 1500*time.Millisecond, time.Since(begin), "500 ms and 1 s")
		before := source.asked.Load()
		time.Sleep(9 * time.Minute)
		require.InDelta(t, 5, source.asked.Load()-before, 2, "each 2 minutes, and at a resync")
	})
}

// That others change makes nobody wait longer.
func TestBackoffOfPopulatingIsNotDoubledByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, source := newShakyNode(t, own)
		n.claim("a")
		m, stop := n.run()
		defer stop()
		source.fail.Store(1000)
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		begin := time.Now()
		for range 10 {
			synctest.Wait()
			n.source.SetPod(podWith("2"))
		}
		synctest.Wait()
		source.fail.Store(0)
		n.up(m, pod)
		require.Equal(t, 500*time.Millisecond, time.Since(begin))
	})
}

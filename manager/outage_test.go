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

// An outage lets a number of reads fail.
type outage struct{ failures atomic.Int32 }

// err returns the error of the next read.
func (o *outage) err() error {
	if o.failures.Add(-1) >= 0 {
		return errOutage
	}
	return nil
}

// A failingSource fails to return volumes during an outage, and reports changes without names.
type failingSource struct {
	podsAndClaims
	outage
	reads atomic.Int32
}

func (s *failingSource) Pods(ctx context.Context) ([]*v1.Pod, error) {
	s.reads.Add(1)
	return s.podsAndClaims.Pods(ctx)
}

var errOutage = errors.New("the API server is away")

func (s *failingSource) GetPersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.podsAndClaims.GetPersistentVolume(ctx, name)
}

func newFailingNode(t *testing.T, fake volumetest.FakeConfig) (*node, *failingSource) {
	n := newNode(t, fake)
	source := &failingSource{podsAndClaims: n.source}
	n.read(source)
	return n, source
}

// TestOutageKeepsVolumes: while reads of the source fail, volumes that are up stay up, are reported
// as up, and are repaired, and the error is reported.
func TestOutageKeepsVolumes(t *testing.T) {
	for name, later := range map[string]time.Duration{"at once": 0, "after a resync": 11 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, source := newFailingNode(t, perPod)
				n.claim("a")
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				defer stop()
				source.failures.Store(1000)
				n.source.SetPod(podWith("2")) // anything changes
				time.Sleep(later + time.Second)
				require.Len(t, m.GetMountedVolumesForPod("1"), 1)
				state := m.State()
				require.Equal(t, "mounted", state.Volumes[0].Pods[0].Phase())
				require.Len(t, state.Failed, 1)
				require.ErrorIs(t, state.Failed[0].Err, errOutage)
				n.up(m, pod)
				unwanted := m.WaitForUnmount(endedContext(t), pod)
				var left *manager.WaitError
				require.ErrorAs(t, unwanted, &left)
				require.Len(t, left.Volumes, 1)

				for _, mounted := range n.mountsBelow("/1/") {
					require.NoError(t, n.kernel.Unmount(t.Context(), mounted.Mountpoint))
				}
				time.Sleep(5 * time.Second)
				require.Len(t, n.mountsBelow("/1/"), 1, "it was not repaired")
				n.source.RemovePod("1")
				n.down(m, pod)
				require.Zero(t, stableMountCount(n))
			})
		})
	}
}

// endedContext returns an ended context: a wait with it returns the present state.
func endedContext(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestOutageAfterClaimChange: a pod with another claim does not receive the volume of its last claim.
func TestOutageAfterClaimChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, source := newFailingNode(t, perPod)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		source.failures.Store(1000)
		other := podWith("1", "b")
		n.source.SetPod(other)
		time.Sleep(time.Second)
		require.ErrorIs(t, m.WaitForAttachAndMount(endedContext(t), other), errOutage)
	})
}

// TestOutageAfterRebinding: a claim that was recreated for another volume, whose read fails, does not
// receive the volume of the last claim. A volume that is up stays until the pod is gone.
func TestOutageAfterRebinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, source := newFailingNode(t, perPod)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		claim, err := n.source.GetPersistentVolumeClaim(t.Context(), "default", "b")
		require.NoError(t, err)
		claim = claim.DeepCopy()
		claim.Name = "a"
		source.failures.Store(1 << 20)
		n.source.SetClaim(claim)
		time.Sleep(time.Hour) // and so many resyncs
		require.ErrorIs(t, m.WaitForAttachAndMount(endedContext(t), pod), errOutage)
		require.Empty(t, m.GetMountedVolumesForPod("1"))
		require.Len(t, n.mountsBelow("/1/"), 1, "it stays")
		require.Error(t, m.WaitForUnmount(endedContext(t), pod))

		source.failures.Store(0)
		time.Sleep(5 * time.Minute)
		require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), pod), "bound to another volume now")
		require.Contains(t, n.mountsBelow("/1/")[0].Root, "disk-a")
		n.source.RemovePod("1")
		n.down(m, pod)
		n.source.SetPod(pod)
		n.up(m, pod)
		require.Equal(t, "b", m.GetMountedVolumesForPod("1")["v0"].Spec.Name())
		require.Len(t, n.mountsBelow("/1/"), 1)
		require.Contains(t, n.mountsBelow("/1/")[0].Root, "disk-b")
	})
}

// TestOutageKeepsSharedSteps: while the volumes of a pod cannot be resolved, no attachment or mount
// for the pod is released: neither finished ones, nor those in flight, nor those of an earlier run.
func TestOutageKeepsSharedSteps(t *testing.T) {
	away := func(n *node, source *failingSource) { source.failures.Store(1000) }
	for name, test := range map[string]struct {
		fault   volumetest.Fault
		fail    func(*node, *failingSource)
		restart bool
	}{
		"no answer":                {volumetest.Fault{Method: volumetest.SetUp, Err: errOutage}, away, false},
		"no answer from the start": {volumetest.Fault{Method: volumetest.SetUp, Err: errOutage}, away, true},
		"a lost claim":             {volumetest.Fault{Method: volumetest.SetUp, Err: errOutage}, setClaimLost, false},
		"a lost claim meanwhile":   {volumetest.Fault{Method: volumetest.MountDevice, Delay: 4 * time.Second}, setClaimLost, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, source := newFailingNode(t, volumetest.FakeConfig{})
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
				require.Equal(t, 1, n.mountCount())
				n.source.RemovePod("1")
				n.down(m, pod)
				require.Zero(t, stableMountCount(n))
				require.Empty(t, n.plugin.AttachedTo(disk))
			})
		})
	}
}

// setClaimLost sets the phase of the claim to Lost.
func setClaimLost(n *node, _ *failingSource) {
	claim, err := n.source.GetPersistentVolumeClaim(n.Context(), "default", "a")
	require.NoError(n, err)
	lost := claim.DeepCopy()
	lost.Status.Phase = v1.ClaimLost
	n.source.SetClaim(lost)
}

// TestBackoffPerUnresolvedVolume: a pod with a missing claim does not delay the retry of another pod, and
// its claim is read only as often as the backoff permits.
func TestBackoffPerUnresolvedVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, source := newFailingNode(t, perPod)
		n.claim("a")
		m, stop := n.run()
		defer stop()
		n.source.SetPod(podWith("9", "never-there"))
		time.Sleep(9 * time.Minute)
		source.failures.Store(2)
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		begin := time.Now()
		n.up(m, pod)
		require.Equal(t, 1500*time.Millisecond, time.Since(begin), "500 ms and 1 s")
		before := source.reads.Load()
		time.Sleep(9 * time.Minute)
		require.InDelta(t, 5, source.reads.Load()-before, 2, "each 2 minutes, and at a resync")
	})
}

// TestOtherPodsDoNotLengthenBackoff: changes of other pods do not lengthen the backoff of a pod.
func TestOtherPodsDoNotLengthenBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, source := newFailingNode(t, perPod)
		n.claim("a")
		m, stop := n.run()
		defer stop()
		source.failures.Store(1000)
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		begin := time.Now()
		for range 10 {
			synctest.Wait()
			n.source.SetPod(podWith("2"))
		}
		synctest.Wait()
		source.failures.Store(0)
		n.up(m, pod)
		require.Equal(t, 500*time.Millisecond, time.Since(begin))
	})
}

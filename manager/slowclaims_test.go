package manager_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slowClaims is a source that reads some claims slowly, or never.
type slowClaims struct {
	*manager.MemorySource
	delay           func(claim string) time.Duration
	endsWithContext bool // reads of volumes, too, end with their context
	reads           atomic.Int64
}

func (s *slowClaims) GetPersistentVolumeClaim(ctx context.Context, ns, name string) (*v1.PersistentVolumeClaim, error) {
	s.reads.Add(1)
	claim, err := s.MemorySource.GetPersistentVolumeClaim(ctx, ns, name)
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(s.delay(name)):
		return claim, err
	}
}

func (s *slowClaims) GetPersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	if s.endsWithContext && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.MemorySource.GetPersistentVolume(ctx, name)
}

// withSlowClaim makes reads of one claim by the node take the time, and returns the source.
func withSlowClaim(n *node, slow string, d time.Duration) *slowClaims {
	s := &slowClaims{MemorySource: n.source, delay: func(claim string) time.Duration {
		if claim == slow {
			return d
		}
		return 0
	}}
	n.read(s)
	return s
}

const never = 10000 * time.Hour

// TestHangingClaimDelaysNoOtherPod: a claim whose read hangs delays no other pod's volumes and no tear-down.
// The failure is reported once, and the existing volumes of the claim's pod stay.
func TestHangingClaimDelaysNoOtherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		s := withSlowClaim(n, "hangs", never)
		s.endsWithContext = true
		n.claim("a")
		old := podWith("9", "a")
		m, stop := n.runUp(old)
		defer stop()
		hangs := podWith("1", "a", "hangs")
		n.source.SetPod(hangs)
		for i, bound := range []time.Duration{2 * time.Second, 0, 0} {
			begin := time.Now()
			other := podWith(types.UID(fmt.Sprint("5", i)), "a")
			n.source.SetPod(other)
			n.source.RemovePod(old.UID)
			n.up(m, other)
			n.down(m, old)
			require.LessOrEqual(t, time.Since(begin), bound, "of a clock that is not the machine's")
			old = other
			time.Sleep(time.Minute)
		}
		require.Len(t, m.GetMountedVolumesForPod("1"), 1)
		time.Sleep(24 * time.Hour)
		require.Equal(t, []string{manager.FailedMount}, n.warnings())
		require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), hangs), `v1: claim default/hangs: the source did not return in 30s`)
		require.Less(t, s.reads.Load(), int64(3000), "with pauses")
		require.Len(t, n.mountsBelow("/1/"), 1)
	})
}

// TestHangingClaimKeepsItsVolume: a volume stays up while the read of its claim hangs.
func TestHangingClaimKeepsItsVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		pod := podWith("1", "a")
		var takes atomic.Int64
		n.read(&slowClaims{MemorySource: n.source, delay: func(string) time.Duration { return time.Duration(takes.Load()) }})
		m, stop := n.runUp(pod)
		defer stop()
		before := n.mountsBelow("/")
		takes.Store(int64(never))
		n.source.SetPod(podWith("2"))
		time.Sleep(time.Hour)
		require.NoError(t, m.WaitForAttachAndMount(endedContext(t), pod))
		require.Equal(t, before, n.mountsBelow("/"))
		require.Len(t, m.State().Failed, 1)
		takes.Store(0)
		time.Sleep(time.Hour)
		require.Empty(t, m.State().Failed)
	})
}

// TestManyHangingClaims: other pods wait only for a bounded number of hanging reads, not for all.
func TestManyHangingClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.read(&slowClaims{MemorySource: n.source, delay: func(claim string) time.Duration {
			if claim == "a" {
				return 0
			}
			return never
		}})
		n.claim("a")
		other := podWith("zzz", "a")
		for i := range 100 {
			n.source.SetPod(podWith(types.UID(fmt.Sprint("pod-", i)), fmt.Sprint("hangs-", i)))
		}
		begin := time.Now()
		m, stop := n.runUp(other)
		defer stop()
		require.Less(t, time.Since(begin), 30*time.Second, "of a clock that is not the machine's")
		n.source.RemovePod("zzz")
		begin = time.Now()
		n.down(m, other)
		require.Zero(t, time.Since(begin))
	})
}

// TestLateClaimIsUsed: the late result of a slow read is used. No failure is reported meanwhile, and
// the source is not read again afterwards.
func TestLateClaimIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		s := withSlowClaim(n, "a", 20*time.Second)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a", "b")
		m, stop := n.run()
		defer stop()
		time.Sleep(time.Second)
		begin := time.Now()
		n.source.SetPod(pod)
		time.Sleep(5 * time.Second)
		require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), pod), "still pending")
		n.up(m, pod)
		require.Equal(t, 20*time.Second, time.Since(begin), "of a clock that is not the machine's")
		require.Empty(t, n.warnings())
		time.Sleep(9 * time.Minute) // less than a resync
		require.LessOrEqual(t, s.reads.Load(), int64(4), "twice for each, at most")
	})
}

// TestLateClaimDoesNotHideChange: the late result of a read that began before a change does not hide the
// change.
func TestLateClaimDoesNotHideChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		withSlowClaim(n, "a", 20*time.Second)
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.run()
		defer stop()
		n.source.SetPod(pod)
		time.Sleep(10 * time.Second)
		n.source.RemoveClaim("default", "a")
		time.Sleep(5 * time.Minute)
		require.ErrorContains(t, m.WaitForUnmount(endedContext(t), pod), "still has")
		require.Len(t, m.State().Failed, 1)
		require.ErrorContains(t, m.State().Failed[0].Err, "not found")
	})
}

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

// A slowSourceOf is slow to answer for some claims, or never does.
type slowSourceOf struct {
	*manager.MemorySource
	slow  func(claim string) time.Duration
	heeds bool // its context, in whatever it is asked
	asked atomic.Int64
}

func (s *slowSourceOf) PersistentVolumeClaim(ctx context.Context, ns, name string) (*v1.PersistentVolumeClaim, error) {
	s.asked.Add(1)
	claim, err := s.MemorySource.PersistentVolumeClaim(ctx, ns, name)
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(s.slow(name)):
		return claim, err
	}
}

func (s *slowSourceOf) PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	if s.heeds && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.MemorySource.PersistentVolume(ctx, name)
}

// slowAt returns a source of the node that needs the time for the claim.
func slowAt(n *node, slow string, d time.Duration) *slowSourceOf {
	s := &slowSourceOf{MemorySource: n.source, slow: func(claim string) time.Duration {
		if claim == slow {
			return d
		}
		return 0
	}}
	n.config.Source = s
	return s
}

const never = 10000 * time.Hour

// TestOneClaimHangs: a claim of which the source does not answer keeps no other pod from
// its volumes, nor any volume from being taken down; it is told once, and what its own
// pod has stays.
func TestOneClaimHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		s := slowAt(n, "hangs", never)
		s.heeds = true
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
		require.ErrorContains(t, m.WaitForAttachAndMount(ended(t), hangs), `v1: claim default/hangs: the source has not answered in 30s`)
		require.Less(t, s.asked.Load(), int64(3000), "with pauses")
		require.Len(t, n.table("/1/"), 1)
	})
}

// TestHangingClaimKeepsItsVolume: what is up stays as long as nobody says that it is not
// wanted.
func TestHangingClaimKeepsItsVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		pod := podWith("1", "a")
		var takes atomic.Int64
		n.config.Source = &slowSourceOf{MemorySource: n.source, slow: func(string) time.Duration { return time.Duration(takes.Load()) }}
		m, stop := n.runUp(pod)
		defer stop()
		before := n.table("/")
		takes.Store(int64(never))
		n.source.SetPod(podWith("2"))
		time.Sleep(time.Hour)
		require.NoError(t, m.WaitForAttachAndMount(ended(t), pod))
		require.Equal(t, before, n.table("/"))
		require.Len(t, m.State().Failed, 1)
		takes.Store(0)
		time.Sleep(time.Hour)
		require.Empty(t, m.State().Failed)
	})
}

// TestManyClaimsHang: others wait for some at a time.
func TestManyClaimsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.config.Source = &slowSourceOf{MemorySource: n.source, slow: func(claim string) time.Duration {
			if claim == "a" {
				return 0
			}
			return never
		}}
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

// TestSlowClaim: an answer that comes late counts, nobody is told of a failure meanwhile,
// and the source is left alone afterwards.
func TestSlowClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		s := slowAt(n, "a", 20*time.Second)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a", "b")
		m, stop := n.run()
		defer stop()
		time.Sleep(time.Second)
		begin := time.Now()
		n.source.SetPod(pod)
		time.Sleep(5 * time.Second)
		require.ErrorContains(t, m.WaitForAttachAndMount(ended(t), pod), "not answered yet")
		n.up(m, pod)
		require.Equal(t, 20*time.Second, time.Since(begin), "of a clock that is not the machine's")
		require.Empty(t, n.warnings())
		time.Sleep(9 * time.Minute) // less than a resync
		require.LessOrEqual(t, s.asked.Load(), int64(4), "twice for each, at most")
	})
}

// TestLateAnswerIsOld: one that was asked for before a change does not hide it.
func TestLateAnswerIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		slowAt(n, "a", 20*time.Second)
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.run()
		defer stop()
		n.source.SetPod(pod)
		time.Sleep(10 * time.Second)
		n.source.RemoveClaim("default", "a")
		time.Sleep(5 * time.Minute)
		require.ErrorContains(t, m.WaitForUnmount(ended(t), pod), "still has")
		require.Len(t, m.State().Failed, 1)
		require.ErrorContains(t, m.State().Failed[0].Err, "does not exist")
	})
}

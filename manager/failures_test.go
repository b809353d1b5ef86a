package manager_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume/volumetest"
	"k8s.io/apimachinery/pkg/types"
)

// TestFailuresOfDeletedPodsAreDropped: the failures of a deleted pod are dropped, even if other pods have
// the volume.
func TestFailuresOfDeletedPodsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		stays := podWith("0", "a")
		_, stop := n.runUp(stays)
		stop()
		n.config.Resync = -1
		m, stop := n.runUp(stays)
		defer stop()
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: errors.New("no luck")})
		for i := range 20 {
			uid := types.UID(fmt.Sprint("pod-", i))
			n.source.SetPod(podWith(uid, "a"))
			time.Sleep(time.Minute)
			require.NotZero(t, m.FailureCount())
			n.source.RemovePod(uid)
			time.Sleep(time.Minute)
		}
		require.Zero(t, m.FailureCount())
	})
}

// TestBringUpEndsTearDownBackoff: the backoff of a failed tear-down, unmount or detach ends when the volume is
// brought up again. The next one starts at once.
func TestBringUpEndsTearDownBackoff(t *testing.T) {
	for name, c := range map[string]struct {
		fake   volumetest.FakeConfig
		method volumetest.Method
	}{
		"tear down":      {perPod, volumetest.TearDown},
		"unmount device": {volumetest.FakeConfig{NoAttach: true}, volumetest.UnmountDevice},
		"detach":         {volumetest.FakeConfig{NoDeviceMount: true}, volumetest.Detach},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, c.fake)
				n.claim("a")
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				defer stop()
				n.plugin.Inject(volumetest.Fault{Method: c.method, Err: errors.New("busy")})
				n.source.RemovePod("1")
				time.Sleep(5 * time.Minute)
				require.NotEmpty(t, m.State().Volumes)
				n.plugin.ClearFaults()
				n.source.SetPod(pod)
				time.Sleep(time.Second)
				n.up(m, pod)
				begin := time.Now()
				n.source.RemovePod("1")
				n.down(m, pod)
				synctest.Wait()
				require.Empty(t, m.State().Volumes)
				require.Zero(t, time.Since(begin), "of a clock that is not the machine's")
			})
		})
	}
}

// TestBackoffDoublesUpToLimit: the pauses between tries double, and are never longer than two minutes.
func TestBackoffDoublesUpToLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.config.Resync = -1
		n.claim("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: errors.New("no luck")})
		_, stop := n.run()
		defer stop()
		n.source.SetPod(podWith("1", "a"))
		var pauses []time.Duration
		for last, begin := 0, time.Now(); len(pauses) < 13; time.Sleep(time.Second / 2) {
			synctest.Wait()
			if calls := n.plugin.Calls(volumetest.SetUp); calls > last {
				pauses = append(pauses, time.Since(begin))
				last, begin = calls, time.Now()
			}
		}
		require.Equal(t, []time.Duration{
			0, time.Second / 2, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
			32 * time.Second, 64 * time.Second, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute,
		}, pauses, "of a clock that is not the machine's")
	})
}

// TestResyncInterval: the source is read again at each Config.Resync; never if it is negative.
func TestResyncInterval(t *testing.T) {
	for every, want := range map[time.Duration]int64{0: 6, time.Minute: 60, time.Hour: 1, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, perPod)
			n.config.Resync = every
			s := &slowClaims{MemorySource: n.source, delay: func(string) time.Duration { return 0 }}
			n.read(s)
			n.claim("a")
			_, stop := n.runUp(podWith("1", "a"))
			defer stop()
			synctest.Wait()
			before := s.reads.Load()
			time.Sleep(time.Hour + time.Second)
			require.Equal(t, want, s.reads.Load()-before, "every %v", every)
		})
	}
}

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// A controllerAttacher detaches volumes that are no longer in use, as a controller does.
type controllerAttacher struct{ manager *manager.Manager }

func (*controllerAttacher) Attach(context.Context, manager.Attachment) (string, error) {
	return "/dev/x", nil
}

func (a *controllerAttacher) Detach(ctx context.Context, at manager.Attachment) error {
	for slices.Contains(a.manager.GetVolumesInUse(), at.Volume) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
	return nil
}

// TestVolumeIsReleasedBeforeDetach: a volume is in use until it is unmounted, and no longer when it
// is detached.
func TestVolumeIsReleasedBeforeDetach(t *testing.T) {
	for name, fake := range map[string]volumetest.FakeConfig{"mounted once": {}, "for each pod": {NoDeviceMount: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, fake)
				n.claim("a")
				a := &controllerAttacher{}
				n.config.Attacher = a
				for _, method := range []volumetest.Method{volumetest.UnmountDevice, volumetest.TearDown} {
					n.plugin.Inject(volumetest.Fault{Method: method, Err: errors.New("busy"), Times: 5})
				}
				m, stop := n.run()
				defer stop()
				a.manager = m
				pod := podWith("1", "a")
				n.source.SetPod(pod)
				n.up(m, pod)
				n.source.RemovePod("1")
				for stableMountCount(n) > 0 {
					require.Len(t, m.GetVolumesInUse(), 1)
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				require.Empty(t, m.GetVolumesInUse())
				require.Empty(t, m.State().Volumes)
			})
		})
	}
}

type slowAttacher struct{}

// TestAttachingVolumeIsInUse: a volume is in use while its attach operation is in flight, also if
// its pod is deleted.
func TestAttachingVolumeIsInUse(t *testing.T) {
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

// TestAttachWaitsForReport: with ReportFirst a volume is attached once it is reported as in use.
func TestAttachWaitsForReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.config.ReportFirst = true
		n.claim("a")
		m, stop := n.run()
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		time.Sleep(time.Hour)
		require.Zero(t, n.plugin.Calls(volumetest.Attach))
		m.MarkVolumesAsReportedInUse(m.GetVolumesInUse())
		n.up(m, pod)
		stop()
	})
}

func (slowAttacher) Attach(context.Context, manager.Attachment) (string, error) {
	time.Sleep(time.Minute)
	return "", nil
}

func (slowAttacher) Detach(context.Context, manager.Attachment) error { return nil }

// followInUse records the complete lists of volumes in use, one for each call of a subscriber, as
// the numbers of volumes.
func followInUse(n *node, m *manager.Manager) (take func() []int) {
	var counts []int
	n.Cleanup(m.SubscribeVolumesInUse(func() {
		names, complete := m.CompleteVolumesInUse()
		n.mu.Lock()
		defer n.mu.Unlock()
		require.True(n, complete)
		counts = append(counts, len(names))
	}))
	return func() []int {
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		taken := counts
		counts = nil
		return taken
	}
}

// TestSubscribeVolumesInUse: a burst is one call, and no change is no call.
func TestSubscribeVolumesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		m, err := manager.New(n.config)
		require.NoError(t, err)
		take := followInUse(n, m)
		stop := n.runManager(m)
		defer stop()
		require.Equal(t, []int{0}, take(), "the first complete list")

		var pods []*v1.Pod
		for i := range 50 {
			n.claim(fmt.Sprint("c", i))
			pods = append(pods, podWith(types.UID(fmt.Sprint(i)), fmt.Sprint("c", i)))
		}
		require.Empty(t, take())
		n.source.SetPod(pods...)
		for _, pod := range pods {
			n.up(m, pod)
		}
		require.Equal(t, []int{50}, take())

		n.source.SetPod(podWith("second", "c0"))
		n.up(m, podWith("second", "c0"))
		time.Sleep(24 * time.Hour) // and so many resyncs and checks
		require.Empty(t, take(), "a second pod, and idleness")

		n.source.RemovePod("0")
		n.down(m, pods[0])
		require.Empty(t, take(), "a pod is left")
		for _, pod := range pods[1:] {
			n.source.RemovePod(pod.UID)
		}
		n.source.RemovePod("second")
		time.Sleep(time.Hour)
		counts := take()
		require.NotEmpty(t, counts)
		require.Zero(t, counts[len(counts)-1])
		require.True(t, slices.IsSortedFunc(counts, func(a, b int) int { return b - a }), "%v", counts)
		require.Equal(t, counts, slices.Compact(slices.Clone(counts)))
	})
}

// TestVolumesInUseAreComplete: until the source has returned all pods, and the earlier run is
// restored, the list is not complete; a volume of an earlier run stays in it meanwhile.
func TestVolumesInUseAreComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()

		source := &downSource{podsAndClaims: n.source}
		source.broken.Store(true)
		n.read(source)
		m, err := manager.New(n.config)
		require.NoError(t, err)
		names, complete := m.CompleteVolumesInUse()
		require.Empty(t, names)
		require.False(t, complete)
		take := followInUse(n, m)
		stop = n.runManager(m)
		time.Sleep(time.Hour)
		names, complete = m.CompleteVolumesInUse()
		require.Len(t, names, 1)
		require.False(t, complete)
		require.Empty(t, take())
		source.broken.Store(false)
		n.up(m, pod)
		require.Equal(t, []int{1}, take())
		stop()
		_, complete = m.CompleteVolumesInUse()
		require.True(t, complete, "the last known list")
	})
}

// A downSource returns no pods while broken is set.
type downSource struct {
	podsAndClaims
	broken atomic.Bool
}

func (s *downSource) Pods(ctx context.Context) ([]*v1.Pod, error) {
	if s.broken.Load() {
		return nil, errors.New("broken")
	}
	return s.podsAndClaims.Pods(ctx)
}

// TestNoVolumesInUse: volumes that are not attached are never in use.
func TestNoVolumesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{NoAttach: true})
		n.claim("a")
		m, err := manager.New(n.config)
		require.NoError(t, err)
		take := followInUse(n, m)
		defer n.runManager(m)()
		require.Equal(t, []int{0}, take())
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		n.up(m, pod)
		n.source.RemovePod("1")
		n.down(m, pod)
		require.Empty(t, take())
	})
}

// A gatedAttacher lets Attach of the volume of one name wait.
type gatedAttacher struct{ slow string }

func (g gatedAttacher) Attach(_ context.Context, at manager.Attachment) (string, error) {
	if at.Spec.Name() == g.slow {
		time.Sleep(time.Second)
	}
	return "", nil
}

func (gatedAttacher) Detach(context.Context, manager.Attachment) error { return nil }

// TestInUseUntilDetach: an unmounted volume whose detach waits for a worker stays in use: a pod
// that comes now uses the attachment.
func TestInUseUntilDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		n.claim("b")
		n.config.Workers = 1
		n.config.Attacher = gatedAttacher{slow: "b"}
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		inUse := m.GetVolumesInUse()
		n.source.SetPod(podWith("2", "b"))
		synctest.Wait()
		n.source.RemovePod("1")
		n.down(m, pod)
		synctest.Wait()
		require.Empty(t, n.mountsBelow("disk-a"))
		require.Empty(t, n.mountsBelow("/a"))
		require.Contains(t, m.GetVolumesInUse(), inUse[0])
		time.Sleep(2 * time.Second)
		require.NotContains(t, m.GetVolumesInUse(), inUse[0])
	})
}

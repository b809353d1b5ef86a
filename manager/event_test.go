package manager_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// warningsByPod returns the reasons of warning events by pod, in their order.
func (n *node) warningsByPod() map[types.UID][]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	byPod := map[types.UID][]string{}
	for _, e := range n.events {
		if e.Type == v1.EventTypeWarning {
			byPod[e.PodUID] = append(byPod[e.PodUID], e.Reason)
		}
	}
	return byPod
}

// addClaimFor makes the claim "a", which the pods have; as a device if it is a block volume.
func (n *node) addClaimFor(block bool, pods ...*v1.Pod) {
	n.Helper()
	if !block {
		n.claim("a", ofMode(v1.PersistentVolumeFilesystem))
		return
	}
	n.claim("a", ofMode(v1.PersistentVolumeBlock))
	for _, pod := range pods {
		withDevices(pod)
	}
}

// TestSharedFailureIsReportedPerPod: each pod of a volume whose shared step fails receives one event, also a pod
// that is added later. A failure after a success causes another event.
func TestSharedFailureIsReportedPerPod(t *testing.T) {
	for name, c := range map[string]struct {
		method volumetest.Method
		block  bool
		reason string
	}{
		"attach":       {volumetest.Attach, false, manager.FailedAttachVolume},
		"mount device": {volumetest.MountDevice, false, manager.FailedMount},
		"map device":   {volumetest.SetUpDevice, true, manager.FailedMapVolume},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				pods := []*v1.Pod{podWith("1", "a"), podWith("2", "a"), podWith("3", "a")}
				n.addClaimFor(c.block, pods...)
				n.plugin.Inject(volumetest.Fault{Method: c.method, Err: errors.New("no slot")})
				m, stop := n.run()
				defer stop()
				n.source.SetPod(pods[:2]...)
				time.Sleep(time.Hour)
				one := []string{c.reason}
				require.Equal(t, map[types.UID][]string{"1": one, "2": one}, n.warningsByPod())
				n.source.SetPod(pods[2])
				time.Sleep(time.Hour)
				require.Equal(t, map[types.UID][]string{"1": one, "2": one, "3": one}, n.warningsByPod())
				n.plugin.ClearFaults()
				for _, pod := range pods {
					n.up(m, pod)
				}
				n.source.RemovePod("1", "2", "3")
				require.NoError(t, m.WaitForAllPodsUnmount(t.Context()))
				stableMountCount(n)
				n.plugin.Inject(volumetest.Fault{Method: c.method, Err: errors.New("no slot")})
				n.source.SetPod(pods[0])
				time.Sleep(time.Hour)
				require.Equal(t, []string{c.reason, c.reason}, n.warningsByPod()["1"])
			})
		})
	}
}

// TestFailureAfterSuccessIsReported: a failure with the same text is reported again after a success.
func TestFailureAfterSuccessIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		fault := volumetest.Fault{Method: volumetest.MountDevice, Err: errors.New("no slot")}
		n.plugin.Inject(fault)
		pod := podWith("1", "a")
		m, stop := n.run()
		defer stop()
		n.source.SetPod(pod)
		time.Sleep(time.Hour)
		n.plugin.ClearFaults()
		n.up(m, pod)
		n.plugin.Inject(fault)
		require.NoError(t, n.kernel.Unmount(t.Context(), n.mountsBelow("/mounts/")[0].Mountpoint))
		time.Sleep(time.Hour)
		require.Equal(t, []string{manager.FailedMount, manager.FailedMount}, n.warningsByPod()["1"])
	})
}

// TestEventMessageIsOneLine: the message of an event is one line, also if the text of the error has several.
func TestEventMessageIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Times: 1, Err: errors.New("no\nPOD 2 IS UP\r\x1b[2K\u2028\u0085und so ä weiter")})
		_, stop := n.runUp(podWith("1", "a"))
		stop()
		require.Contains(t, n.events[0].Message, "no POD 2 IS UP  [2K  und so ä weiter")
	})
}

// TestTearDownEventReasons: a failed tear-down, unmount or detach is reported once, with the
// reason that Kubernetes uses.
func TestTearDownEventReasons(t *testing.T) {
	for name, c := range map[string]struct {
		method volumetest.Method
		block  bool
		reason string
	}{
		"detach":         {volumetest.Detach, false, manager.FailedDetachVolume},
		"unmount device": {volumetest.UnmountDevice, false, manager.FailedUnMount},
		"tear down":      {volumetest.TearDown, false, manager.FailedUnMount},
		"unmap device":   {volumetest.TearDownDevice, true, manager.FailedUnmapDevice},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				pod := podWith("1", "a")
				n.addClaimFor(c.block, pod)
				_, stop := n.runUp(pod)
				defer stop()
				n.plugin.Inject(volumetest.Fault{Method: c.method, Err: errors.New("busy")})
				n.source.RemovePod("1")
				time.Sleep(time.Hour)
				require.Equal(t, []string{c.reason}, n.warnings())
			})
		})
	}
}

func (n *node) reasons() []string {
	return n.reasonsOf(func(manager.Event) bool { return true })
}

// warnings returns the reasons of all warning events.
func (n *node) warnings() []string {
	return n.reasonsOf(func(e manager.Event) bool { return e.Type == v1.EventTypeWarning })
}

// messages returns the messages of all events.
func (n *node) messages() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	for _, e := range n.events {
		all = append(all, e.Message)
	}
	return all
}

func (n *node) reasonsOf(is func(manager.Event) bool) []string {
	synctest.Wait() // events follow the notification of waiters
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	for _, e := range n.events {
		if is(e) {
			all = append(all, e.Reason)
		}
	}
	return all
}

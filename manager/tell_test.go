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

// told returns the reasons of warnings, in their order, by the pod that they are about.
func (n *node) told() map[types.UID][]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := map[types.UID][]string{}
	for _, e := range n.events {
		if e.Type == v1.EventTypeWarning {
			told[e.PodUID] = append(told[e.PodUID], e.Reason)
		}
	}
	return told
}

// claimFor makes the claim "a", which the pods have; as a device if it is a block volume.
func (n *node) claimFor(block bool, pods ...*v1.Pod) {
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

// TestEachPodIsTold: what fails for all pods is told to each once, also to those that come
// later; and again once it has been in order.
func TestEachPodIsTold(t *testing.T) {
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
				n.claimFor(c.block, pods...)
				n.plugin.Inject(volumetest.Fault{Method: c.method, Err: errors.New("no slot")})
				m, stop := n.run()
				defer stop()
				n.source.SetPod(pods[:2]...)
				time.Sleep(time.Hour)
				one := []string{c.reason}
				require.Equal(t, map[types.UID][]string{"1": one, "2": one}, n.told())
				n.source.SetPod(pods[2])
				time.Sleep(time.Hour)
				require.Equal(t, map[types.UID][]string{"1": one, "2": one, "3": one}, n.told())
				n.plugin.ClearFaults()
				for _, pod := range pods {
					n.up(m, pod)
				}
				n.source.RemovePod("1", "2", "3")
				require.NoError(t, m.WaitForAllPodsUnmount(t.Context()))
				settled(n)
				n.plugin.Inject(volumetest.Fault{Method: c.method, Err: errors.New("no slot")})
				n.source.SetPod(pods[0])
				time.Sleep(time.Hour)
				require.Equal(t, []string{c.reason, c.reason}, n.told()["1"])
			})
		})
	}
}

// TestPodIsToldAgain: what fails as it did before is told if it was in order in between.
func TestPodIsToldAgain(t *testing.T) {
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
		require.NoError(t, n.kernel.Unmount(t.Context(), n.table("/mounts/")[0].Mountpoint))
		time.Sleep(time.Hour)
		require.Equal(t, []string{manager.FailedMount, manager.FailedMount}, n.told()["1"])
	})
}

// TestOneLine: the message of an event is one line, whatever the error says.
func TestOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Times: 1, Err: errors.New("no\nPOD 2 IS UP\r\x1b[2K\u2028\u0085und so ä weiter")})
		_, stop := n.runUp(podWith("1", "a"))
		stop()
		require.Contains(t, n.events[0].Message, "no POD 2 IS UP  [2K  und so ä weiter")
	})
}

// TestReasonsOfTakingDown: what cannot be taken down is told by Kubernetes' reasons, once.
func TestReasonsOfTakingDown(t *testing.T) {
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
				n.claimFor(c.block, pod)
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

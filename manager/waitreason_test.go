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

// TestWaitReasonIsReported: a pod that waits without a failure has the reason in the error of its
// wait, in its state, and in one event.
func TestWaitReasonIsReported(t *testing.T) {
	onePod := func(pv *v1.PersistentVolume) {
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	life := func(uid types.UID) func(*v1.PersistentVolume) {
		return func(pv *v1.PersistentVolume) { pv.UID = uid }
	}
	for name, test := range map[string]struct {
		first, then func(*v1.PersistentVolume)
		reportFirst bool
		errText     string
	}{
		"one pod":      {onePod, onePod, false, "in use by another pod"},
		"remade":       {life("one"), life("two"), false, "the deleted volume of the same name"},
		"not reported": {life("one"), life("one"), true, "not been reported"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				n.config.ReportFirst = test.reportFirst
				n.claim("a", test.first)
				m, stop := n.run()
				defer stop()
				one, two := podWith("1", "a"), podWith("2", "a")
				n.source.SetPod(one)
				time.Sleep(time.Second)
				n.claim("a", test.then)
				n.source.SetPod(two)
				time.Sleep(time.Hour) // and so many resyncs
				require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), two), test.errText)
				state := n.stateOf(m, "2")
				require.ErrorContains(t, state.Waits, test.errText)
				require.NoError(t, state.Err)
				require.Equal(t, "pending", state.Phase())
				require.Equal(t, []string{manager.FailedMount}, n.reasonsOf(func(e manager.Event) bool {
					return e.PodUID == "2" && e.Volume == "v0" && e.Pod == two && errors.Is(e.Err, state.Waits)
				}))
				require.Len(t, n.reasonsOf(func(e manager.Event) bool { return e.PodUID == "2" }), 1)
				if test.reportFirst {
					m.MarkVolumesAsReportedInUse(m.GetVolumesInUse())
				} else {
					n.source.RemovePod("1")
				}
				n.up(m, two)
				require.NoError(t, n.stateOf(m, "2").Waits)
			})
		})
	}
}

// TestRepeatedWaitReasonIsReported: a pod that waits again for the same reason receives another event.
func TestRepeatedWaitReasonIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		remake := func(uid types.UID) {
			n.claim("a", func(pv *v1.PersistentVolume) { pv.UID = uid })
			time.Sleep(time.Minute)
		}
		remake("one")
		m, stop := n.runUp(podWith("1", "a"))
		defer stop()
		for told := 1; told <= 3; told++ {
			remake("two")
			require.ErrorContains(t, n.stateOf(m, "1").Waits, "the deleted volume of the same name")
			require.Len(t, n.reasonsOf(func(e manager.Event) bool { return e.Reason == manager.FailedMount }), told)
			remake("one")
			require.NoError(t, n.stateOf(m, "1").Waits)
		}
	})
}

// stateOf returns the state of a pod's only volume.
func (n *node) stateOf(m *manager.Manager, pod types.UID) manager.PodState {
	n.Helper()
	for _, v := range m.State().Volumes {
		for _, state := range v.Pods {
			if state.Pod == pod {
				return state
			}
		}
	}
	n.Fatalf("pod %s has no volume", pod)
	return manager.PodState{}
}

package manager_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bind gives a claim of another UID the volume.
func (n *node) bind(claim, to string) {
	n.Helper()
	pv, err := n.source.PersistentVolume(n.Context(), to)
	require.NoError(n, err)
	pv = pv.DeepCopy()
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: claim, UID: "again"}
	n.source.SetVolume(pv)
	n.source.SetClaim(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: claim, UID: "again"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: to},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	})
}

// TestReboundUnderAPod: what a pod has is not taken from under its containers because its
// claim is bound to another volume, whichever names it has for it. It is told, once.
func TestReboundUnderAPod(t *testing.T) {
	for name, c := range map[string]struct {
		fake    volumetest.FakeConfig
		restart bool
	}{
		"for each pod":                  {own, false},
		"for all":                       {volumetest.FakeConfig{}, false},
		"for all, and it is restarted":  {volumetest.FakeConfig{}, true},
		"attached, and it is restarted": {volumetest.FakeConfig{NoDeviceMount: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, c.fake)
				n.claim("a")
				n.claim("b")
				pod := podWith("1", "a", "a")
				m, stop := n.runUp(pod)
				before := n.table("/")
				if c.restart {
					stop()
				}
				n.bind("a", "b")
				if c.restart {
					m, stop = n.run()
				}
				defer func() { stop() }()
				time.Sleep(time.Hour)
				require.Equal(t, before, n.table("/"))
				err := m.WaitForAttachAndMount(ended(t), pod)
				require.ErrorContains(t, err, `v0: the claim is bound to another volume now: "b", and "a" stays`)
				require.ErrorContains(t, err, "v1: the claim")
				require.Empty(t, m.GetMountedVolumesForPod("1"))
				require.Len(t, m.State().Failed, 2)
				require.Equal(t, []string{manager.FailedMount, manager.FailedMount}, n.warnings(), "one for each name")

				n.source.RemovePod("1")
				n.down(m, pod)
				require.Zero(t, settled(n))
				n.source.SetPod(pod)
				n.up(m, pod)
				require.Equal(t, "b", m.GetMountedVolumesForPod("1")["v0"].Spec.PersistentVolume.Name)
			})
		})
	}
}

// TestPodWithAnotherClaim: a pod that names another claim itself gets that one's volume.
func TestPodWithAnotherClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		n.claim("b")
		m, stop := n.runUp(podWith("1", "a"))
		defer stop()
		other := podWith("1", "b")
		n.source.SetPod(other)
		time.Sleep(time.Minute)
		n.up(m, other)
		require.Equal(t, "b", m.GetMountedVolumesForPod("1")["v0"].Spec.PersistentVolume.Name)
		require.Len(t, n.table("/1/"), 1)
	})
}

package manager_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rebindClaim gives a claim of another UID the volume.
func (n *node) rebindClaim(claim, to string) {
	n.Helper()
	pv, err := n.source.GetPersistentVolume(n.Context(), to)
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

// TestPodKeepsVolumeOfReboundClaim: a pod keeps its volume, under all its names, if the claim is bound to
// another volume meanwhile. The pod receives one event.
func TestPodKeepsVolumeOfReboundClaim(t *testing.T) {
	for name, c := range map[string]struct {
		fake    volumetest.FakeConfig
		restart bool
	}{
		"for each pod":                  {perPod, false},
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
				before := n.mountsBelow("/")
				if c.restart {
					stop()
				}
				n.rebindClaim("a", "b")
				if c.restart {
					m, stop = n.run()
				}
				defer func() { stop() }()
				time.Sleep(time.Hour)
				require.Equal(t, before, n.mountsBelow("/"))
				err := m.WaitForAttachAndMount(endedContext(t), pod)
				require.ErrorContains(t, err, `v0: the claim is bound to another volume now: "b"; "a" stays`)
				require.ErrorContains(t, err, "v1: the claim")
				require.Empty(t, m.GetMountedVolumesForPod("1"))
				require.Len(t, m.State().Failed, 2)
				require.Equal(t, []string{manager.FailedMount, manager.FailedMount}, n.warnings(), "one for each name")

				n.source.RemovePod("1")
				n.down(m, pod)
				require.Zero(t, stableMountCount(n))
				n.source.SetPod(pod)
				n.up(m, pod)
				require.Equal(t, "b", m.GetMountedVolumesForPod("1")["v0"].Spec.PersistentVolume.Name)
			})
		})
	}
}

// TestPodWithChangedClaim: a pod whose specification names another claim receives the volume of that
// claim.
func TestPodWithChangedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.claim("b")
		m, stop := n.runUp(podWith("1", "a"))
		defer stop()
		other := podWith("1", "b")
		n.source.SetPod(other)
		time.Sleep(time.Minute)
		n.up(m, other)
		require.Equal(t, "b", m.GetMountedVolumesForPod("1")["v0"].Spec.PersistentVolume.Name)
		require.Len(t, n.mountsBelow("/1/"), 1)
	})
}

// TestUnmountedDevicePathIsFree: a volume that is attached, but no longer device-mounted, is not treated as
// mounted after a restart. Another volume occupies its device mount path by then.
func TestUnmountedDevicePathIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("b")
		n.claim("a")
		one, two := podWith("1", "a"), podWith("2", "a")
		m, stop := n.runUp(one)
		n.plugin.Inject(volumetest.Fault{Method: volumetest.Detach, Err: volume.ErrTransient})
		n.source.RemovePod("1")
		n.down(m, one)
		n.claim("a", func(pv *v1.PersistentVolume) {
			pv.Spec.CSI = n.plugin.NewSpec("a", n.dir+"/disk-b").PersistentVolume.Spec.CSI
		})
		n.source.SetPod(two)
		n.up(m, two)
		before, unmounts := n.mountsBelow("/"), n.plugin.Calls(volumetest.UnmountDevice)
		stop()
		n.plugin.ClearFaults()
		m, stop = n.run()
		defer stop()
		n.up(m, two)
		time.Sleep(time.Hour)
		require.Equal(t, before, n.mountsBelow("/"))
		require.Equal(t, unmounts, n.plugin.Calls(volumetest.UnmountDevice))
		require.Len(t, m.State().Volumes, 1, "the first is detached")
	})
}

package manager_test

import (
	"fmt"
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

var deletionTime = &metav1.Time{Time: time.Unix(1, 0)}

// deleteClaim marks a claim as being deleted, and protected.
func (n *node) deleteClaim(name string) {
	n.Helper()
	claim, err := n.source.GetPersistentVolumeClaim(n.Context(), "default", name)
	require.NoError(n, err)
	claim = claim.DeepCopy()
	claim.DeletionTimestamp, claim.Finalizers = deletionTime, []string{"kubernetes.io/pvc-protection"}
	n.source.SetClaim(claim)
}

// TestDeletedClaimStaysForItsPods: while a claim that is being deleted is protected, the pods that
// have its volume keep it. No other pod receives the volume.
func TestDeletedClaimStaysForItsPods(t *testing.T) {
	for _, fake := range []volumetest.FakeConfig{perPod, {NoAttach: true}, {NoDeviceMount: true}, {}} {
		t.Run(fmt.Sprintf("attach %v, mount for all %v", !fake.NoAttach, !fake.NoDeviceMount), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, fake)
				n.claim("a")
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				defer func() { stop() }()
				n.deleteClaim("a")
				requireKept := func(why string) {
					t.Helper()
					time.Sleep(time.Hour)
					require.NoError(t, m.WaitForAttachAndMount(endedContext(t), pod), why)
					require.Len(t, m.GetMountedVolumesForPod("1"), 1, why)
					require.Len(t, n.mountsBelow("/pods/1/"), 1, why)
				}
				requireKept("it is being deleted")
				require.NoError(t, n.kernel.Unmount(t.Context(), n.mountsBelow("/pods/1/")[0].Mountpoint))
				requireKept("it was unmounted meanwhile")
				stop()
				m, stop = n.run()
				requireKept("after a restart")

				next := podWith("2", "a")
				n.source.SetPod(next)
				time.Sleep(time.Hour)
				require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), next), "not yet used by the pod")
				require.ErrorIs(t, m.WaitForAttachAndMount(endedContext(t), next), manager.ErrNotBound)
				require.Empty(t, n.mountsBelow("/pods/2/"))
				n.source.RemovePod("1", "2")
				n.down(m, pod)
				require.Zero(t, stableMountCount(n))
			})
		})
	}
}

// TestPodOfDeletedClaimStarts: a pod that existed before its claim was deleted receives its
// volume, as with the kubelet. So does a running pod without a volume on disk.
func TestPodOfDeletedClaimStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: volume.ErrTransient})
		m, stop := n.run()
		defer stop()
		before, runs := podWith("1", "a"), podWith("2", "a")
		n.source.SetPod(before)
		time.Sleep(time.Second)
		n.deleteClaim("a")
		runs.Status.Phase = v1.PodRunning
		n.source.SetPod(runs)
		time.Sleep(time.Minute)
		n.plugin.ClearFaults()
		n.up(m, before)
		n.up(m, runs)
	})
}

// TestPodBeingDeletedGetsNoNewVolume: a pod that is being deleted and has never run receives no new volumes, and
// keeps its existing ones.
func TestPodBeingDeletedGetsNoNewVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.claim("b")
		b, err := n.source.GetPersistentVolumeClaim(t.Context(), "default", "b")
		require.NoError(t, err)
		n.source.RemoveClaim("default", "b")
		pod := podWith("1", "a", "b")
		m, stop := n.run()
		defer func() { stop() }()
		n.source.SetPod(pod)
		time.Sleep(time.Second)
		require.Len(t, n.mountsBelow("/pods/1/"), 1)

		ends := pod.DeepCopy()
		ends.DeletionTimestamp = deletionTime
		n.source.SetPod(ends)
		n.source.SetClaim(b)
		for range 2 {
			warned := len(n.warnings())
			time.Sleep(time.Hour)
			require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), ends), "has never run")
			require.Len(t, n.mountsBelow("/pods/1/"), 1, "it keeps what it has")
			require.Len(t, m.GetMountedVolumesForPod("1"), 1)
			require.Len(t, n.warnings(), warned, "the wait is no failure")
			stop()
			m, stop = n.run()
		}
		runs := ends.DeepCopy()
		runs.Status.InitContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
		n.source.SetPod(runs)
		n.up(m, runs)
		n.source.RemovePod("1")
		n.down(m, pod)
	})
}

// TestViewOfDeletedClaim: a pod that has its volume only as a read-only view has it, after a
// restart, too.
func TestViewOfDeletedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		pod := podWith("1", "a", "a")
		pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		pod.Spec.Containers[0].VolumeMounts = pod.Spec.Containers[0].VolumeMounts[:1]
		_, stop := n.runUp(pod)
		stop()
		ends := pod.DeepCopy()
		ends.DeletionTimestamp = deletionTime
		n.deleteClaim("a")
		n.source.SetPod(ends)
		m, stop := n.run()
		defer stop()
		n.up(m, ends)
		require.Len(t, m.GetMountedVolumesForPod("1"), 1)
	})
}

package manager_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
)

// TestMissingVolumeFailsWait: a wait for a pod fails if a container uses a volume that the pod lacks. The
// pod receives one event, and its other volumes come up.
func TestMissingVolumeFailsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		m, stop := n.run()
		defer stop()
		pod := podWith("1", "a")
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "nope", MountPath: "/nope"})
		n.source.SetPod(pod)
		time.Sleep(time.Hour)
		require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), pod), "nope: a container uses a volume that the pod does not define")
		require.Len(t, m.GetMountedVolumesForPod("1"), 1, "the others are up")
		require.Equal(t, []string{manager.FailedMount}, n.warnings())
		require.Len(t, m.State().Failed, 1)
		require.Equal(t, "nope", m.State().Failed[0].Name)
		n.source.RemovePod("1")
		n.down(m, pod)
	})
}

// TestMissingVolumeIsNotRetried: a volume that the pod lacks is not retried, because only a changed
// pod can provide it.
func TestMissingVolumeIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.config.Resync = -1
		s := &slowClaims{MemorySource: n.source, delay: func(string) time.Duration { return 0 }}
		n.read(s)
		n.claim("a")
		pod := podWith("1", "a")
		pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "nope"}}
		_, stop := n.run()
		defer stop()
		n.source.SetPod(pod)
		time.Sleep(time.Second)
		before := s.reads.Load()
		time.Sleep(time.Hour)
		require.Equal(t, before, s.reads.Load())
	})
}

// TestUnusedVolumesAreNotSetUp: a volume that no container uses is not set up, and the volumes of a
// terminated pod are torn down.
func TestUnusedVolumesAreNotSetUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a", "b")
		pod.Spec.Containers[0].VolumeMounts = pod.Spec.Containers[0].VolumeMounts[:1]
		m, stop := n.runUp(pod)
		require.Equal(t, 1, n.mountCount(), "no container uses the other")
		ended := pod.DeepCopy()
		ended.Status.Phase = v1.PodSucceeded
		n.source.SetPod(ended)
		n.down(m, pod)
		require.Zero(t, n.mountCount())
		stop()
	})
}

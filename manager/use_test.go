package manager_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
)

// TestNoSuchVolume: a pod of which a container uses a volume that the pod does not have
// never has all its volumes, and is told so once.
func TestNoSuchVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		m, stop := n.run()
		defer stop()
		pod := podWith("1", "a")
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "nope", MountPath: "/nope"})
		n.source.SetPod(pod)
		time.Sleep(time.Hour)
		require.ErrorContains(t, m.WaitForAttachAndMount(ended(t), pod), "nope: a container uses it, and the pod has no such volume")
		require.Len(t, m.GetMountedVolumesForPod("1"), 1, "the others are up")
		require.Equal(t, []string{manager.FailedMount}, n.warnings())
		require.Len(t, m.State().Failed, 1)
		require.Equal(t, "nope", m.State().Failed[0].Name)
		n.source.RemovePod("1")
		n.down(m, pod)
	})
}

// TestNoSuchVolumeIsNotTriedAgain: nothing but another pod can mend it.
func TestNoSuchVolumeIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.config.Resync = -1
		s := &slowSourceOf{MemorySource: n.source, slow: func(string) time.Duration { return 0 }}
		n.config.Source = s
		n.claim("a")
		pod := podWith("1", "a")
		pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "nope"}}
		_, stop := n.run()
		defer stop()
		n.source.SetPod(pod)
		time.Sleep(time.Second)
		before := s.asked.Load()
		time.Sleep(time.Hour)
		require.Equal(t, before, s.asked.Load())
	})
}

package podspec

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func podOf(volumes []v1.Volume, containers ...v1.Container) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: volumes, Containers: containers}}
	pod.Name = "web"
	return pod
}

func byClaim(name, claim string, readOnly bool) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: readOnly}}}
}

// TestClaimOf: a volume has the claim that it names, or one named for the pod and the volume.
func TestClaimOf(t *testing.T) {
	for name, test := range map[string]struct {
		volume   v1.Volume
		claim    string
		readOnly bool
	}{
		"claim":     {byClaim("v", "data", false), "data", false},
		"read-only": {byClaim("v", "data", true), "data", true},
		"ephemeral": {v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}, "web-v", false},
		"inline":    {v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}, "", false},
	} {
		claim, readOnly := ClaimOf(podOf(nil), &test.volume)
		require.Equal(t, test.claim, claim, name)
		require.Equal(t, test.readOnly, readOnly, name)
	}
}

// TestHasSameClaim: another claim, or another access to it, is not the same claim.
func TestHasSameClaim(t *testing.T) {
	last := podOf([]v1.Volume{byClaim("v", "data", false)})
	for claim, want := range map[string]bool{"data": true, "other": false} {
		now := podOf([]v1.Volume{byClaim("v", claim, false)})
		require.Equal(t, want, HasSameClaim(now, &now.Spec.Volumes[0], last), claim)
	}
	readOnly := podOf([]v1.Volume{byClaim("v", "data", true)})
	require.False(t, HasSameClaim(readOnly, &readOnly.Spec.Volumes[0], last))
}

// TestUseFitsVolumeMode: a volume is used by the mounts and the devices of containers, and each use has to fit
// its mode.
func TestUseFitsVolumeMode(t *testing.T) {
	pod := podOf([]v1.Volume{byClaim("mounted", "a", false), byClaim("idle", "b", false)}, v1.Container{
		VolumeMounts:  []v1.VolumeMount{{Name: "mounted"}, {Name: "none"}},
		VolumeDevices: []v1.VolumeDevice{{Name: "device"}},
	})
	uses := UsesOf(pod)
	require.Len(t, uses, 3)
	require.Equal(t, []string{"device", "none"}, MissingOf(pod, uses))
	require.NoError(t, uses["mounted"].CheckFilesystem())
	require.ErrorContains(t, uses["mounted"].CheckBlock(), "volumeMounts")
	require.NoError(t, uses["device"].CheckBlock())
	require.ErrorContains(t, uses["device"].CheckFilesystem(), "volumeDevices")
}

// TestHasRun: a pod has run if one of its containers, of any kind, runs or has ended.
func TestHasRun(t *testing.T) {
	ended := []v1.ContainerStatus{{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}
	for name, test := range map[string]struct {
		status          v1.PodStatus
		run, terminated bool
	}{
		"new":       {v1.PodStatus{Phase: v1.PodPending}, false, false},
		"init":      {v1.PodStatus{Phase: v1.PodPending, InitContainerStatuses: ended}, true, false},
		"ephemeral": {v1.PodStatus{Phase: v1.PodPending, EphemeralContainerStatuses: ended}, true, false},
		"running":   {v1.PodStatus{Phase: v1.PodRunning}, true, false},
		"failed":    {v1.PodStatus{Phase: v1.PodFailed, ContainerStatuses: ended}, true, true},
		"succeeded": {v1.PodStatus{Phase: v1.PodSucceeded, ContainerStatuses: ended}, true, true},
	} {
		pod := &v1.Pod{Status: test.status}
		require.Equal(t, test.run, HasRun(pod), name)
		require.Equal(t, test.terminated, IsTerminated(pod), name)
	}
}

package manager_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
)

// podWithView returns a pod with one claim under two names, the first of them read-only.
func (n *realNode) podWithView(i int) *v1.Pod {
	pod := n.pod(i, "shared")
	reads := v1.Volume{Name: "reads", VolumeSource: n.volume("shared")}
	reads.PersistentVolumeClaim.ReadOnly = true
	pod.Spec.Volumes = append([]v1.Volume{reads}, pod.Spec.Volumes...)
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "reads", MountPath: "/reads"})
	return pod
}

// TestClaimUnderTwoNames: a claim that a pod has under a read-only and a writable name has a directory
// for each name, also after a restart. Both are torn down with the pod.
func TestClaimUnderTwoNames(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := newTmpfsDir(t)
	n, err := newRealNode(dir)
	require.NoError(t, err)
	pod, other := n.podWithView(1), n.pod(2, "shared")
	volumes := filepath.Join(dir, "root/pods", string(pod.UID), "volumes/kubernetes.io~local-volume")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "disks/shared/file"), []byte("1"), 0o644))
	for range 2 { // the second is a restart
		n, err = newRealNode(dir)
		require.NoError(t, err)
		stop := n.run(t.Context())
		require.NoError(t, n.up(t.Context(), pod, other))
		up := n.manager.GetMountedVolumesForPod(pod.UID)
		require.Len(t, up, 2)
		require.Equal(t, filepath.Join(volumes, "shared"), up["shared"].Path)
		require.Equal(t, filepath.Join(volumes, "shared~r"), up["reads"].Path)
		require.Equal(t, "shared", up["reads"].Spec.Name())
		require.ErrorIs(t, os.WriteFile(up["reads"].Path+"/file", nil, 0o644), syscall.EROFS)
		require.NoError(t, os.WriteFile(up["shared"].Path+"/file", []byte("2"), 0o644))
		text, err := os.ReadFile(up["reads"].Path + "/file")
		require.NoError(t, err)
		require.Equal(t, "2", string(text))
		require.Empty(t, n.manager.State().Leftovers)
		require.NoError(t, stop())
	}
	n, err = newRealNode(dir)
	require.NoError(t, err)
	stop := n.run(t.Context())
	require.NoError(t, n.up(t.Context(), other))
	require.NoError(t, n.manager.WaitForUnmount(t.Context(), pod))
	require.NoDirExists(t, filepath.Dir(filepath.Dir(volumes)), "those of an earlier run are removed")
	require.NoError(t, n.up(t.Context(), pod))
	require.NoError(t, n.down(t.Context(), pod))
	require.NoDirExists(t, volumes)
	require.NoError(t, n.down(t.Context(), other))
	require.NoError(t, stop())
}

// TestTwoReadOnlyNamesShareView: two read-only names of a claim are one view.
func TestTwoReadOnlyNamesShareView(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n, err := newRealNode(newTmpfsDir(t))
	require.NoError(t, err)
	pod := n.podWithView(1)
	pod.Spec.Volumes[1].PersistentVolumeClaim.ReadOnly = true
	stop := n.run(t.Context())
	require.NoError(t, n.up(t.Context(), pod))
	up := n.manager.GetMountedVolumesForPod(pod.UID)
	require.Equal(t, "shared", filepath.Base(up["reads"].Path))
	require.Equal(t, up["shared"].Path, up["reads"].Path)
	require.NoError(t, n.down(t.Context(), pod))
	require.NoError(t, stop())
}

package manager_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestReplacedRealMounts: with real mounts of all kinds, a foreign mount over a volume is
// reported and stays until it is unmounted. The volume is then mounted as before.
func TestReplacedRealMounts(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n, err := newRealNode(newTmpfsDir(t))
	require.NoError(t, err)
	if _, err := n.kernel.MountID(t.Context(), n.dir); errors.Is(err, errors.ErrUnsupported) {
		mounttest.SkipWithout(t, "statmount", err)
	}
	stop := n.run(t.Context())
	pod := n.pod(1, "memory", "seen", "shared")
	require.NoError(t, n.up(t.Context(), pod))
	paths, sources := map[string]string{}, map[string]string{}
	for name, v := range n.manager.GetMountedVolumesForPod(pod.UID) {
		paths[name], sources[name] = v.Path, n.sourceAt(t, v.Path)
	}
	for name, path := range paths {
		require.NoError(t, syscall.Mount("theirs", path, "ramfs", 0, ""))
		n.waitForPhase(t, name, "failed", "theirs")
		require.NoError(t, n.kernel.Unmount(t.Context(), path))
		n.waitForPhase(t, name, "mounted", sources[name])
	}
	require.NoError(t, n.down(t.Context(), pod))
	require.NoError(t, stop())
	require.Empty(t, n.resources(t).ofPods)
}

// waitForPhase waits until a volume is in the phase, and the topmost mount at its path has the
// source.
func (n *realNode) waitForPhase(t *testing.T, name, phase, source string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, v := range n.manager.State().Volumes {
			for _, pod := range v.Pods {
				if pod.Name == name {
					return pod.Phase() == phase && n.sourceAt(t, pod.Path) == source
				}
			}
		}
		return false
	}, 3*time.Minute, 10*time.Millisecond, "%s is not %s, from %s", name, phase, source)
}

// sourceAt returns the source of the mount at a path.
func (n *realNode) sourceAt(t *testing.T, path string) string {
	table, err := n.kernel.List(t.Context())
	if err != nil {
		return err.Error()
	}
	info, _ := mount.Table(table).At(path)
	return info.Source
}

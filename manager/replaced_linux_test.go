package manager_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
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

// TestReplacedOnNode: after a restart volumes stay up whose directories were replaced on the node. A
// hostPath shows what is at its path to the next container. All are torn down with their pod, also if
// the directories are missing.
func TestReplacedOnNode(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := newTmpfsDir(t)
	seen, disk := dir+"/seen", dir+"/disks/shared"
	n, err := newRealNode(dir)
	require.NoError(t, err)
	pod := n.pod(1, "seen", "shared")
	stop := n.run(t.Context())
	restart := func() {
		t.Helper()
		require.NoError(t, stop())
		n, err = newRealNode(dir) // makes missing directories
		require.NoError(t, err)
		n.source.SetPod(pod) // before the manager compares the volumes with the pods
		stop = n.run(t.Context())
	}
	requireKept := func(replace func() error) {
		t.Helper()
		before := n.mountIDs(t)
		require.NoError(t, replace())
		restart()
		require.NoError(t, n.up(t.Context(), pod))
		require.Equal(t, before, n.mountIDs(t))
	}
	require.NoError(t, n.up(t.Context(), pod))
	requireKept(func() error { return os.Rename(seen, seen+".old") })
	requireKept(func() error { return errors.Join(os.RemoveAll(seen), os.RemoveAll(seen+".old"), os.RemoveAll(disk)) })
	require.NoError(t, os.WriteFile(seen+"/new", nil, 0o600))
	require.NoError(t, n.manager.WaitForVolumes(t.Context(), pod, manager.WaitOptions{NewContainer: true}))
	require.FileExists(t, n.manager.GetMountedVolumesForPod(pod.UID)["seen"].Path+"/new")
	requireKept(func() error { return nil })

	require.NoError(t, errors.Join(os.RemoveAll(seen), os.RemoveAll(disk)))
	restart()
	require.NoError(t, n.down(t.Context(), pod))
	require.NoError(t, n.manager.WaitForAllPodsUnmount(t.Context()))
	require.NoError(t, stop())
	require.Empty(t, n.mountIDs(t))
}

// mountIDs returns the IDs of the pods' mounts, by mount point.
func (n *realNode) mountIDs(t *testing.T) map[string]int {
	t.Helper()
	table, err := n.kernel.List(t.Context())
	require.NoError(t, err)
	ids := map[string]int{}
	for _, info := range table {
		if strings.HasPrefix(info.Mountpoint, n.dir+"/root/pods/") {
			ids[info.Mountpoint] = info.ID
		}
	}
	return ids
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

package manager_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func leftoverPaths(m *manager.Manager) (all []string) {
	for _, left := range m.State().Leftovers {
		all = append(all, left.Path)
	}
	return all
}

// TestSubpathsWithoutVolumesAreLeftovers: subpath mounts of a pod without volume directories are reported as
// leftovers and stay.
func TestSubpathsWithoutVolumesAreLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		pods := n.dir + "/root/pods"
		part := pods + "/gone/volume-subpaths/v0/c/0"
		require.NoError(t, os.MkdirAll(part, 0o755))
		require.NoError(t, n.kernel.Mount(t.Context(), mount.Request{Source: n.dir + "/disk-a", Target: part}))
		m, stop := n.run()
		defer stop()
		for _, later := range []time.Duration{time.Second, time.Hour} { // and so many resyncs
			time.Sleep(later)
			n.requireWaitForUnmountFails(m, podWith("gone"), "without a volume of the pod")
			require.Equal(t, []string{pods + "/gone/volume-subpaths/v0"}, leftoverPaths(m))
		}
		require.NoError(t, n.kernel.Unmount(t.Context(), part))
		require.NoError(t, os.Rename(pods+"/gone", n.dir+"/gone"))
		n.down(m, podWith("gone"))
	})
}

// TestSubpathsOfReturningPod: leftover subpath mounts are unmounted with the pod's volumes
// if the pod comes back.
func TestSubpathsOfReturningPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.config.Resync = -1
		n.claim("a")
		part := n.dir + "/root/pods/1/volume-subpaths/v0/c/0"
		require.NoError(t, os.MkdirAll(part, 0o755))
		require.NoError(t, n.kernel.Mount(t.Context(), mount.Request{Source: n.dir + "/disk-a", Target: part}))
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		n.source.RemovePod("1")
		n.down(m, pod)
		require.Zero(t, stableMountCount(n))
		require.Empty(t, leftoverPaths(m))
	})
}

// TestIrregularVolumeDirectories: a file or symbolic link in place of a directory of volumes is
// reported as a leftover. Links are not followed.
func TestIrregularVolumeDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		pods, elsewhere := n.dir+"/root/pods", n.dir+"/elsewhere"
		require.NoError(t, os.MkdirAll(elsewhere+"/volumekit.io~fake/a", 0o755))
		odd := []string{pods + "/1/volumes", pods + "/2/volumes/volumekit.io~fake", pods + "/3/volumes"}
		for _, path := range odd {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		}
		require.NoError(t, os.Symlink(elsewhere, odd[0]))
		require.NoError(t, os.Symlink(elsewhere+"/volumekit.io~fake", odd[1]))
		require.NoError(t, os.WriteFile(odd[2], nil, 0o600))
		require.NoError(t, os.WriteFile(pods+"/file", nil, 0o600))
		m, stop := n.run()
		defer stop()
		time.Sleep(time.Hour) // and so many resyncs
		require.Equal(t, odd, leftoverPaths(m))
		n.requireWaitForUnmountFails(m, podWith("2"), "not a directory")
		n.down(m, podWith("file"))
		require.DirExists(t, elsewhere+"/volumekit.io~fake/a")
	})
}

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

func paths(m *manager.Manager) (all []string) {
	for _, left := range m.State().Leftovers {
		all = append(all, left.Path)
	}
	return all
}

// What containers have of volumes of which there is nothing else is told of, and kept.
func TestSubpathsAlone(t *testing.T) {
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
			n.requireNotDown(m, podWith("gone"), "no volume of the pod is there")
			require.Equal(t, []string{pods + "/gone/volume-subpaths/v0"}, paths(m))
		}
		require.NoError(t, n.kernel.Unmount(t.Context(), part))
		require.NoError(t, os.Rename(pods+"/gone", n.dir+"/gone"))
		n.down(m, podWith("gone"))
	})
}

// They go with the pod's volumes, if it comes back.
func TestSubpathsOfAPodThatComesBack(t *testing.T) {
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
		require.Zero(t, settled(n))
		require.Empty(t, paths(m))
	})
}

// What is in the place of a directory with volumes is told of, and not followed.
func TestNoDirectoryOfVolumes(t *testing.T) {
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
		require.Equal(t, odd, paths(m))
		n.requireNotDown(m, podWith("2"), "not a directory")
		n.down(m, podWith("file"))
		require.DirExists(t, elsewhere+"/volumekit.io~fake/a")
	})
}

package contract

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/volume"
)

func (c *contract) pathPlugin(p volume.VolumePlugin) volume.PathVolumePlugin {
	c.Helper()
	able, ok := volume.As[volume.PathVolumePlugin](p)
	if !ok {
		c.Skip("the plugin takes no volumes down by their paths")
	}
	return able
}

// target: a volume at a path outside the host's root is measured and torn down by that path,
// twice and each time after a restart.
func (c *contract) target() {
	c.pathPlugin(c.plugin)
	spec := c.spec()
	unmounter := func(path string) volume.Unmounter {
		c.Helper()
		u, err := c.pathPlugin(c.restarted()).NewUnmounterAt(path)
		require.NoError(c, err)
		require.Equal(c, path, u.GetPath())
		return u
	}
	published := filepath.Join(c.host.TargetDirs()[0], "pods", "uid", "mount")
	round := func(path string) {
		c.Helper()
		require.NoError(c, unmounter(path).TearDown(c.Context()), "nothing is mounted")
		for range 2 {
			require.NoError(c, c.newMounter(spec).SetUpAt(c.Context(), path, volume.MounterArgs{}))
			c.requireMountedAt(path)
		}
		if !c.NoMetrics {
			metrics, err := unmounter(path).GetMetrics(c.Context())
			require.NoError(c, err)
			require.NotNil(c, metrics.Capacity)
		}
		for range 2 {
			require.NoError(c, unmounter(path).TearDown(c.Context()))
			_, err := os.Lstat(path)
			require.ErrorIs(c, err, fs.ErrNotExist)
		}
		_, err := unmounter(path).GetMetrics(c.Context())
		require.ErrorIs(c, err, volume.ErrNotMounted)
	}
	round(published) // creates the entries that are made once and kept
	before := c.stateWithoutKept()
	round(published)
	require.Equal(c, before, c.stateWithoutKept(), "something is left of a volume that was torn down by its path")
	round(c.newMounter(spec).GetPath())
}

func (c *contract) requireMountedAt(path string) {
	c.Helper()
	require.DirExists(c, path)
	if c.Plain {
		return
	}
	list, err := c.mounter.List(c.Context())
	require.NoError(c, err)
	n := 0
	for _, info := range list {
		if info.Mountpoint == tablepath.Of(path) {
			n++
		}
	}
	require.Equal(c, 1, n, "one mount for one volume"+hintIf(n == 0, hintPlain))
}

// targetBad: paths at which no volume may be set up.
func (c *contract) targetBad() {
	able := c.pathPlugin(c.plugin)
	target := c.host.TargetDirs()[0]
	before := c.state()
	for _, path := range []string{
		"", "relative", "/", c.host.Root(), target, target + "/", target + "-other/volume", filepath.Dir(target) + "/other",
	} {
		_, err := able.NewUnmounterAt(path)
		c.requireRefused(err, path)
	}
	c.requireUnchanged(before, "a refused path changed something")
}

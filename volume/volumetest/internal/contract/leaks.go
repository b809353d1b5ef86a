package contract

import (
	"context"
	"maps"
	"strings"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// leavesNothing: after volumes have been set up and torn down there are no more mounts, files,
// directories, descriptors and goroutines than before.
func (c *contract) leavesNothing() {
	c.unstage(c.makeEachCall()) // creates the entries that are made once and kept
	check, before := mounttest.NoLeaks(c), c.stateWithoutKept()
	for range 10 {
		c.unstage(c.makeEachCall())
	}
	require.Equal(c, before, c.stateWithoutKept(), "something is left of volumes that are gone")
	check()
}

// stateWithoutKept returns the state without the entries that the plugin keeps.
func (c *contract) stateWithoutKept() state {
	c.Helper()
	s := c.state()
	maps.DeleteFunc(s.files, func(name, _ string) bool {
		in, ok := strings.CutPrefix(name, c.ownDir()+"/")
		return ok && c.Keeps != nil && c.Keeps(in)
	})
	return s
}

// makeEachCall makes all calls for a volume, successful and failing ones, and returns the volume.
// Its device, if it has one, is still mounted.
func (c *contract) makeEachCall() *volume.Spec {
	c.Helper()
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	spec := c.spec()
	mounter, unmounter := c.newMounter(spec), c.newUnmounter(spec)
	require.Error(c, mounter.SetUp(ended, volume.MounterArgs{}))
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	_, err := c.plugin.ConstructVolumeSpec(c.Context(), spec.Name(), mounter.GetPath())
	require.NoError(c, err)
	_, _ = mounter.GetMetrics(c.Context())
	require.Error(c, unmounter.TearDown(ended))
	c.mustTearDown(spec)
	_, err = c.plugin.ConstructVolumeSpec(c.Context(), spec.Name(), mounter.GetPath())
	require.Error(c, err)
	bad := copyOf(spec)
	rename(bad, "..")
	_, err = c.plugin.NewMounter(bad, c.pod)
	require.Error(c, err)
	return spec
}

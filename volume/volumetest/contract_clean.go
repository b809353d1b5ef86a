package volumetest

import (
	"context"
	"maps"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// After volumes have come and gone there is no more of anything than before: mounts,
// files and directories, descriptors, goroutines.
func (c *contract) leavesNothing() {
	c.unstage(c.comeAndGo()) // what is made once and kept
	check, before := mounttest.NoLeaks(c.T), c.stateButKept()
	for range 10 {
		c.unstage(c.comeAndGo())
	}
	require.Equal(c, before, c.stateButKept(), "something is left of volumes that are gone")
	check()
}

// stateButKept is state without what the plugin says that it keeps.
func (c *contract) stateButKept() state {
	c.Helper()
	s := c.state()
	maps.DeleteFunc(s.files, func(name, _ string) bool {
		in, ok := strings.CutPrefix(name, c.ownDir()+"/")
		return ok && c.Keeps != nil && c.Keeps(in)
	})
	return s
}

// comeAndGo does all there is to do about a volume, with success and without, and
// returns it. Its device, if it has one, is still mounted.
func (c *contract) comeAndGo() *volume.Spec {
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
	c.down(spec)
	_, err = c.plugin.ConstructVolumeSpec(c.Context(), spec.Name(), mounter.GetPath())
	require.Error(c, err)
	bad := copyOf(spec)
	rename(bad, "..")
	_, err = c.plugin.NewMounter(bad, c.pod)
	require.Error(c, err)
	return spec
}

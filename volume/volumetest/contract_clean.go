package volumetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// After volumes have come and gone there is no more of anything than before: mounts,
// files and directories, descriptors, goroutines.
func (c *contract) leavesNothing() {
	c.comeAndGo() // what is made once and kept
	check, before := mounttest.NoLeaks(c.T), c.podState()
	for range 10 {
		c.comeAndGo()
	}
	c.requirePodsUnchanged(before, "something is left of volumes that are gone")
	check()
}

// comeAndGo does all there is to do about a volume, with success and without.
func (c *contract) comeAndGo() {
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
}

package contract

import (
	"syscall"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// remount: a repeated SetUp with all arguments of the manager changes nothing, also if it
// fails; after a restart the volume may not be set up.
func (c *contract) remount() {
	spec := c.spec()
	args := volume.MounterArgs{}
	if d, ok := c.device(spec); ok {
		args.DeviceMountPath = d.path
	}
	mounter := c.newMounter(spec)
	require.NoError(c, mounter.SetUp(c.Context(), args), "it is told where the volume is mounted for all pods")
	up := c.requireUp(mounter.GetPath())
	args.IsRemount = true
	for _, plugin := range []volume.VolumePlugin{c.plugin, c.restarted()} {
		again, err := plugin.NewMounter(spec, c.pod)
		require.NoError(c, err)
		require.NoError(c, again.SetUp(c.Context(), args))
		require.Equal(c, up, c.requireUp(mounter.GetPath()), "a repetition changed what is mounted")
	}
	c.failedRemount(spec, args)
	c.mustTearDown(spec)
	require.NoError(c, mounter.SetUp(c.Context(), args), "it is not up")
	c.requireUp(mounter.GetPath())
	c.mustTearDown(spec)
}

// failedRemount: the pod keeps its volume if a repetition fails.
func (c *contract) failedRemount(spec *volume.Spec, args volume.MounterArgs) {
	fake := c.fake()
	if fake == nil {
		return
	}
	c.Helper()
	mounter := c.newMounter(spec)
	up := c.requireUp(mounter.GetPath())
	for _, op := range operationsOf(fake, func() { require.NoError(c, mounter.SetUp(c.Context(), args)) }) {
		fake.Inject(mounttest.Fault{Op: op, Err: syscall.EIO})
		_ = mounter.SetUp(c.Context(), args)
		fake.ClearFaults()
		require.Equal(c, up, c.requireUp(mounter.GetPath()), "a repetition that failed took the volume from the pod")
	}
}

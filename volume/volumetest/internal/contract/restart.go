package contract

import (
	"context"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/volume"
)

func (c *contract) constructVolumeSpec() {
	spec, mounter := c.mustSetUp()
	restarted := c.restarted()
	found, err := restarted.ConstructVolumeSpec(c.Context(), spec.Name(), mounter.GetPath())
	require.NoError(c, err)
	require.NoError(c, found.Spec.Validate())
	require.Equal(c, spec.Name(), found.Spec.Name())
	require.True(c, restarted.CanSupport(found.Spec))

	want, err := c.plugin.GetVolumeName(spec)
	require.NoError(c, err)
	name, err := restarted.GetVolumeName(found.Spec)
	require.NoError(c, err)
	require.Equal(c, want, name)

	again, err := restarted.NewMounter(found.Spec, c.pod)
	require.NoError(c, err)
	require.NoError(c, again.SetUp(c.Context(), volume.MounterArgs{}), "it is up already")
	c.requireUp(mounter.GetPath())
	c.mustTearDown(spec)
	require.NoError(c, again.SetUp(c.Context(), volume.MounterArgs{}), "up again")
	c.requireUp(mounter.GetPath())
	c.mustTearDown(found.Spec)
}

// restarted returns the plugin of a program that has just started.
func (c *contract) restarted() volume.VolumePlugin {
	c.Helper()
	plugin := c.New(c.host, c.mounter)
	require.NoError(c, plugin.Init(c.Context(), c.host))
	return plugin
}

func (c *contract) notMounted() {
	spec := c.spec()
	mounter, unmounter := c.newMounter(spec), c.newUnmounter(spec)
	check := func() {
		c.Helper()
		found, err := c.plugin.ConstructVolumeSpec(c.Context(), spec.Name(), mounter.GetPath())
		require.ErrorIs(c, err, volume.ErrNotMounted)
		require.Zero(c, found)
		_, err = mounter.GetMetrics(c.Context())
		require.ErrorIs(c, err, volume.ErrNotMounted)
		_, err = unmounter.GetMetrics(c.Context())
		require.ErrorIs(c, err, volume.ErrNotMounted)
	}
	check()
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	c.mustTearDown(spec)
	check()
}

func (c *contract) metrics() {
	if c.NoMetrics {
		c.Skip("the configuration says that there is nothing to measure")
	}
	spec, mounter := c.mustSetUp()
	for _, provider := range []volume.MetricsProvider{mounter, c.newUnmounter(spec)} {
		metrics, err := provider.GetMetrics(c.Context())
		require.NoError(c, err)
		require.NotNil(c, metrics)
		require.False(c, metrics.Time.IsZero())
		require.NotNil(c, metrics.Capacity)
		require.Positive(c, metrics.Capacity.Value())
	}
	c.mustTearDown(spec)
}

func (c *contract) endedContext() {
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	spec := c.spec()
	before := c.state()
	mounter, unmounter := c.newMounter(spec), c.newUnmounter(spec)
	require.ErrorIs(c, mounter.SetUp(ctx, volume.MounterArgs{}), context.Canceled)
	c.requireUnchanged(before, "SetUp with an ended context changed something")

	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	up := c.requireUp(mounter.GetPath())
	require.ErrorIs(c, unmounter.TearDown(ctx), context.Canceled)
	require.Equal(c, up, c.requireUp(mounter.GetPath()), "TearDown with an ended context changed something")
	_, err := c.plugin.ConstructVolumeSpec(ctx, spec.Name(), mounter.GetPath())
	require.ErrorIs(c, err, context.Canceled)
	if !c.NoMetrics {
		_, err = mounter.GetMetrics(ctx)
		require.ErrorIs(c, err, context.Canceled)
	}
	c.mustTearDown(spec)
}

package contract

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/internal/testflag"
	"github.com/volumekit/volumekit/volume"
)

// repetitions returns the number of repetitions.
func repetitions() int {
	if testflag.Short() {
		return 10
	}
	return 100
}

// repeatedCalls requires that each call made many times has the result of one call.
func (c *contract) repeatedCalls() {
	spec := c.spec()
	name, err := c.plugin.GetVolumeName(spec)
	require.NoError(c, err)
	mounter := c.newMounter(spec)
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	up := c.state()
	c.repeat(repetitions(), func() {
		require.True(c, c.plugin.CanSupport(spec))
		again, err := c.plugin.GetVolumeName(spec)
		require.NoError(c, err)
		require.Equal(c, name, again)
		require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
		_, err = c.plugin.ConstructVolumeSpec(c.Context(), spec.Name(), mounter.GetPath())
		require.NoError(c, err)
		c.newUnmounter(spec)
	})
	c.requireUnchanged(up, "setting up what is up changed something")
	c.mustTearDown(spec)
	gone := c.state()
	c.repeat(repetitions(), func() { c.mustTearDown(spec) })
	c.requireUnchanged(gone, "taking down what is gone changed something")
}

func (c *contract) repeat(n int, work func()) {
	c.Helper()
	for range n {
		work()
	}
}

// A verb is a call for a volume, on a plugin without memory of earlier calls. It reports
// whether the volume is set up afterwards.
type verb struct {
	name string
	do   func(c *contract, p volume.VolumePlugin, spec *volume.Spec, up bool) bool
}

func verbs() []verb {
	return []verb{
		{"set up", (*contract).verbSetUp},
		{"tear down", (*contract).verbTearDown},
		{"construct", (*contract).verbConstruct},
		{"measure", (*contract).verbMeasure},
	}
}

// restarts runs all sequences of three verbs (two, in a short test), with a restart of the
// program before each.
func (c *contract) restarts() {
	spec, up, done := c.spec(), false, ""
	thirds := verbs()
	if testflag.Short() {
		thirds = thirds[:1]
	}
	path := c.newMounter(spec).GetPath()
	for _, first := range verbs() {
		for _, second := range verbs() {
			for _, third := range thirds {
				for _, v := range []verb{first, second, third} {
					done = fmt.Sprintf("%.200s, %s", v.name, done)
					before := c.state()
					was := up
					up = v.do(c, c.restarted(), spec, up)
					if up == was {
						require.Equal(c, before, c.state(), "a verb that changes nothing did: %s", done)
					}
					c.requireIs(up, path, done)
				}
			}
		}
	}
	c.mustTearDown(spec)
}

func (c *contract) requireIs(up bool, path, done string) {
	c.Helper()
	if up {
		c.requireUp(path)
	} else {
		c.requireGone(path)
	}
}

func (c *contract) verbSetUp(p volume.VolumePlugin, spec *volume.Spec, _ bool) bool {
	c.verbSetUpWith(p, spec, volume.MounterArgs{})
	return true
}

func (c *contract) verbSetUpWith(p volume.VolumePlugin, spec *volume.Spec, args volume.MounterArgs) {
	c.Helper()
	mounter, err := p.NewMounter(spec, c.pod)
	require.NoError(c, err)
	require.NoError(c, mounter.SetUp(c.Context(), args))
}

func (c *contract) verbTearDown(p volume.VolumePlugin, spec *volume.Spec, _ bool) bool {
	unmounter, err := p.NewUnmounter(spec.Name(), c.pod.UID)
	require.NoError(c, err)
	require.NoError(c, unmounter.TearDown(c.Context()))
	return false
}

func (c *contract) verbConstruct(p volume.VolumePlugin, spec *volume.Spec, up bool) bool {
	path, err := c.host.PodVolumeDir(c.pod.UID, p.GetPluginName(), spec.Name())
	require.NoError(c, err)
	found, err := p.ConstructVolumeSpec(c.Context(), spec.Name(), path)
	if !up {
		require.ErrorIs(c, err, volume.ErrNotMounted)
		return false
	}
	require.NoError(c, err)
	require.True(c, p.CanSupport(found.Spec))
	return true
}

func (c *contract) verbMeasure(p volume.VolumePlugin, spec *volume.Spec, up bool) bool {
	unmounter, err := p.NewUnmounter(spec.Name(), c.pod.UID)
	require.NoError(c, err)
	switch _, err := unmounter.GetMetrics(c.Context()); {
	case !up:
		require.ErrorIs(c, err, volume.ErrNotMounted)
	case !c.NoMetrics:
		require.NoError(c, err)
	}
	return up
}

// verbsAtOnce makes all calls for one volume concurrently. Readers may make a volume busy for
// an instant.
func (c *contract) verbsAtOnce() {
	spec := c.spec()
	mounter, unmounter := c.newMounter(spec), c.newUnmounter(spec)
	c.allAtOnce(func() error {
		for range 5 {
			setUp := mounter.SetUp(c.Context(), volume.MounterArgs{})
			_, found := c.plugin.ConstructVolumeSpec(c.Context(), spec.Name(), mounter.GetPath())
			_, measured := mounter.GetMetrics(c.Context())
			tornDown := unmounter.TearDown(c.Context())
			if err := errors.Join(setUp, ignoreBusy(tornDown), ignoreGone(found), c.ignoreWithoutMetrics(measured)); err != nil {
				return err
			}
		}
		return nil
	})
	c.mustTearDown(spec)
}

// ignoreBusy returns nil for a transient error.
func ignoreBusy(err error) error {
	if volume.KindOf(err) == volume.Transient {
		return nil
	}
	return err
}

// ignoreGone accepts errors that concurrent set-ups and tear-downs may cause.
func ignoreGone(err error) error {
	if errors.Is(err, volume.ErrNotMounted) || errors.Is(err, volume.ErrUncertain) {
		return nil
	}
	return ignoreBusy(err)
}

// ignoreWithoutMetrics accepts all errors of a plugin without metrics, and those of ignoreGone.
func (c *contract) ignoreWithoutMetrics(err error) error {
	if c.NoMetrics {
		return nil
	}
	return ignoreGone(err)
}

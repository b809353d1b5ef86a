package contract

import (
	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

func (c *contract) readOnlySource() {
	if c.ReadOnlySpec == nil {
		c.Skip("the plugin's volumes cannot say that they are read-only")
	}
	c.requireReadOnly(c.guardedSpec(c.ReadOnlySpec()), volume.MounterArgs{})
}

func (c *contract) readOnlyClaim() {
	spec := copyOf(c.spec())
	spec.ReadOnly = true
	c.requireReadOnly(c.unchangedSpec(spec), volume.MounterArgs{})
}

func (c *contract) readOnlyPod() {
	c.requireReadOnly(c.spec(), volume.MounterArgs{ReadOnly: true})
}

func (c *contract) requireReadOnly(spec *volume.Spec, args volume.MounterArgs) {
	c.Helper()
	mounter := c.newMounter(spec)
	c.requireAttributes(mounter, spec)
	for range 2 {
		require.NoError(c, mounter.SetUp(c.Context(), args))
		at := c.requireUp(mounter.GetPath())
		if !c.RuntimeReadOnly {
			require.NotZero(c, at.Flags&mount.ReadOnly, "a read-only volume is writable")
		}
	}
	c.mustTearDown(spec)
}

// readOnlyLater: a volume that is set up writable does not become read-only: SetUp returns
// volume.ErrAlreadyMounted, and the volume stays as it is.
func (c *contract) readOnlyLater() {
	spec, mounter := c.mustSetUp()
	at := c.requireUp(mounter.GetPath())
	require.Zero(c, at.Flags&mount.ReadOnly, "a writable volume is read-only")
	err := mounter.SetUp(c.Context(), volume.MounterArgs{ReadOnly: true})
	if c.RuntimeReadOnly {
		require.NoError(c, err)
		c.mustTearDown(spec)
		return
	}
	require.ErrorIs(c, err, volume.ErrAlreadyMounted)
	require.Equal(c, volume.Final, volume.KindOf(err))
	require.Equal(c, at, c.requireUp(mounter.GetPath()), "a refused SetUp changed what was up")
	c.mustTearDown(spec)
}

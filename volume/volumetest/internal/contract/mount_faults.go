package contract

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

func (c *contract) mountFails() {
	c.requireMounts()
	fake, spec := c.requireFake(), c.spec()
	mounter := c.newMounter(spec)
	fake.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EIO})
	for range 2 {
		err := mounter.SetUp(c.Context(), volume.MounterArgs{})
		require.ErrorIs(c, err, syscall.EIO, "the mount has failed"+hintIf(err == nil, hintPlain))
		require.NotErrorIs(c, err, volume.ErrUncertain)
		c.requireGone(mounter.GetPath())
	}
	fake.ClearFaults()
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	c.mustTearDown(spec)
}

func (c *contract) mountHangs() {
	c.requireMounts()
	fake, spec := c.requireFake(), c.spec()
	mounter := c.newMounter(spec)
	fake.Inject(mounttest.Fault{Op: mounttest.OpMount, Delay: time.Hour})
	err := c.setUpUntilMount(fake, mounter)
	require.ErrorIs(c, err, context.DeadlineExceeded, "the mount hangs"+hintIf(err == nil, hintPlain))
	require.Empty(c, c.mounts(), "it was mounted after all")
	if !errors.Is(err, volume.ErrUncertain) {
		c.requireGone(mounter.GetPath())
	}
	fake.ClearFaults()
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	c.mustTearDown(spec)
}

// setUpUntilMount returns the error of a SetUp whose time is over while it mounts. On a slow machine
// it may be over before: then SetUp gets more.
func (c *contract) setUpUntilMount(fake *mounttest.Fake, mounter volume.Mounter) (err error) {
	for patience := 20 * time.Millisecond; patience < time.Minute; patience *= 2 {
		asked := operationsOf(fake, func() {
			ctx, cancel := context.WithTimeout(c.Context(), patience)
			defer cancel()
			err = mounter.SetUp(ctx, volume.MounterArgs{})
		})
		if !errors.Is(err, context.DeadlineExceeded) || slices.Contains(asked, mounttest.OpMount) {
			break
		}
	}
	return err
}

// mountUncertain: the kernel has mounted, and the mounter returns an uncertain error.
func (c *contract) mountUncertain() {
	c.requireMounts()
	fake, spec := c.requireFake(), c.spec()
	mounter := c.newMounter(spec)
	fake.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EIO, After: true})
	err := mounter.SetUp(c.Context(), volume.MounterArgs{})
	fake.ClearFaults()
	require.Error(c, err, "the mount is uncertain"+hintPlain)
	if len(c.mounts()) > 0 {
		require.Equal(c, volume.Uncertain, volume.KindOf(err), "something is mounted, and the error does not say so")
	}
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}), "the same call, once more")
	c.requireUp(mounter.GetPath())
	c.mustTearDown(spec)
}

func (c *contract) unmountFails() {
	fake := c.requireFake()
	if !c.Plain {
		c.tearDownFails(fake, mounttest.Fault{Op: mounttest.OpUnmount, Err: syscall.EBUSY})
	}
	spec, _ := c.mustSetUp()
	asked := operationsOf(fake, func() { c.mustTearDown(spec) })
	if slices.Contains(asked, mounttest.OpIsMountPoint) { // a plugin may use another call
		c.tearDownFails(fake, mounttest.Fault{Op: mounttest.OpIsMountPoint, Err: syscall.EIO})
	}
}

func (c *contract) tearDownFails(fake *mounttest.Fake, fault mounttest.Fault) {
	c.Helper()
	spec, mounter := c.mustSetUp()
	unmounter := c.newUnmounter(spec)
	fake.Inject(fault)
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	err := unmounter.TearDown(ctx)
	cancel()
	require.ErrorIs(c, err, fault.Err, "%s has failed%s", fault.Op, hintIf(err == nil && fault.Op == mounttest.OpUnmount, hintPlain))
	require.Equal(c, volume.Transient, volume.KindOf(err), "nothing was unmounted: %v", err)
	c.requireUp(mounter.GetPath())
	require.DirExists(c, mounter.GetPath())
	fake.ClearFaults()
	c.mustTearDown(spec)
}

// unmountUncertain: the kernel has unmounted, and the mounter returns an uncertain error; or the
// directory cannot be removed afterwards.
func (c *contract) unmountUncertain() {
	c.requireMounts()
	fake := c.requireFake()
	spec, _ := c.mustSetUp()
	fake.Inject(mounttest.Fault{Op: mounttest.OpUnmount, Err: syscall.EIO, After: true})
	err := c.newUnmounter(spec).TearDown(c.Context())
	require.Equal(c, volume.Uncertain, volume.KindOf(err), "it is not known what is mounted: %v%s", err, hintIf(err == nil, hintPlain))
	fake.ClearFaults()
	c.mustTearDown(spec)
	if c.Ephemeral {
		return
	}
	spec, mounter := c.mustSetUp()
	file := filepath.Join(mounter.GetPath(), "stray")
	require.NoError(c, os.WriteFile(file, nil, 0o600)) // under the mount, as the fake's mounts are in memory
	err = c.newUnmounter(spec).TearDown(c.Context())
	require.Equal(c, volume.Uncertain, volume.KindOf(err), "it was unmounted, and a file is under the mount: %v%s", err, hintIf(err == nil, hintEphemeral))
	require.NoError(c, os.Remove(file))
	c.mustTearDown(spec)
}

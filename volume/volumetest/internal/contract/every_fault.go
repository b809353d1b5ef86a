package contract

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/internal/testflag"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// failures are errors of a mounter: the file system is gone, or its server ("corrupted"), it
// is in use, the kernel or a policy forbids the call, a resource is exhausted, the mount is
// unexpected.
var failures = []error{
	syscall.ENOTCONN, syscall.ESTALE, syscall.EIO, syscall.EHOSTDOWN, syscall.EHOSTUNREACH,
	syscall.EWOULDBLOCK, syscall.ECONNABORTED, syscall.ETIMEDOUT, syscall.ECONNREFUSED,
	syscall.EBUSY,
	syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOSYS, syscall.EINVAL, syscall.ENODEV,
	syscall.ENOMEM, syscall.ENOSPC, syscall.EMFILE,
	syscall.ELOOP, syscall.ENOTDIR,
	errors.New("an error of no known kind"),
	fmt.Errorf("wrapped: %w", syscall.ESTALE),
	errors.ErrUnsupported,
	mount.ErrNotAsRequested, mount.ErrStillMounted, mount.ErrNotAnswering, mount.ErrSubmounts,
	mount.ErrUncertain,
}

// everyFailure: each call of the mounter fails with each error, every time, or the first time
// only, or after it has done its work. The plugin's error is true in each case, and without
// faults the same calls succeed.
func (c *contract) everyFailure() {
	fake := c.requireFake()
	for _, op := range c.operations(fake) {
		for i, failure := range failures {
			if testflag.Short() && i%4 != 0 {
				continue
			}
			c.withFault(fake, mounttest.Fault{Op: op, Err: failure})
			if i%2 == 0 {
				c.withFault(fake, mounttest.Fault{Op: op, Err: failure, Times: 1})
			} else {
				c.withFault(fake, mounttest.Fault{Op: op, Err: failure, After: true})
			}
		}
	}
}

// operations returns the calls of mount.Interface that the plugin makes.
func (c *contract) operations(fake *mounttest.Fake) []string {
	c.Helper()
	return operationsOf(fake, func() { c.makeEachCall() })
}

// operationsOf returns the calls that work makes.
func operationsOf(fake *mounttest.Fake, work func()) (made []string) {
	fake.ResetLog()
	work()
	for _, action := range fake.Log() {
		if !slices.Contains(made, action.Op) {
			made = append(made, action.Op)
		}
	}
	return made
}

// makeParents creates the directories above a volume's: plugins may remove them or not, as
// other volumes may need them.
func (c *contract) makeParents(v volume.Volume) {
	c.Helper()
	require.NoError(c, os.MkdirAll(filepath.Dir(v.GetPath()), 0o750))
}

func (c *contract) withFault(fake *mounttest.Fake, fault mounttest.Fault) {
	c.Helper()
	what := fmt.Sprintf("%s fails with %q, after its work: %t, times: %d", fault.Op, fault.Err, fault.After, fault.Times)
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Minute)
	defer cancel()
	spec := c.spec()
	mounter, unmounter := c.newMounter(spec), c.newUnmounter(spec)
	c.makeParents(mounter)
	gone := c.podState()

	fake.Inject(fault)
	err := mounter.SetUp(ctx, volume.MounterArgs{})
	c.requireTrue(fake, err, "SetUp: "+what, gone, func() { c.requireUp(mounter.GetPath()) })
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}), what)
	c.requireUp(mounter.GetPath())
	up := c.podState()

	fake.Inject(fault)
	_, err = c.plugin.ConstructVolumeSpec(ctx, spec.Name(), mounter.GetPath())
	c.requireTrue(fake, err, "ConstructVolumeSpec: "+what, up, func() { c.requirePodsUnchanged(up, what) })
	c.requirePodsUnchanged(up, what)
	if err != nil {
		require.NotErrorIs(c, err, volume.ErrNotMounted, what)
	}

	fake.Inject(fault)
	err = unmounter.TearDown(ctx)
	c.requireTrue(fake, err, "TearDown: "+what, up, func() { c.requireDown(unmounter.GetPath()) })
	c.mustTearDown(spec)
}

// requireTrue verifies that the verb is done if there is no error, and that nothing has changed
// unless the error is uncertain. It clears the faults.
func (c *contract) requireTrue(fake *mounttest.Fake, err error, what string, before state, done func()) {
	c.Helper()
	fake.ClearFaults()
	switch volume.KindOf(err) {
	case volume.Success:
		done()
	case volume.Uncertain:
	default:
		c.requirePodsUnchanged(before, fmt.Sprintf("%s: the error says that nothing has changed: %v", what, err))
	}
}

// everyHang: each call of the mounter hangs, before or after it has done its work, until the
// context ends.
func (c *contract) everyHang() {
	fake := c.requireFake()
	for _, op := range c.operations(fake) {
		for _, after := range []bool{false, true} {
			c.withHang(fake, mounttest.Fault{Op: op, Delay: 24 * time.Hour, After: after})
		}
	}
}

func (c *contract) withHang(fake *mounttest.Fake, fault mounttest.Fault) {
	c.Helper()
	what := fmt.Sprintf("%s hangs, after its work: %t", fault.Op, fault.After)
	spec := c.spec()
	mounter, unmounter := c.newMounter(spec), c.newUnmounter(spec)
	c.makeParents(mounter)
	gone := c.podState()

	fake.Inject(fault)
	err := c.requireContextError(what, func(ctx context.Context) error { return mounter.SetUp(ctx, volume.MounterArgs{}) })
	c.requireTrue(fake, err, "SetUp: "+what, gone, func() { c.requireUp(mounter.GetPath()) })
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}), what)
	up := c.podState()

	fake.Inject(fault)
	err = c.requireContextError(what, func(ctx context.Context) error {
		_, err := c.plugin.ConstructVolumeSpec(ctx, spec.Name(), mounter.GetPath())
		return err
	})
	c.requireTrue(fake, err, "ConstructVolumeSpec: "+what, up, func() { c.requirePodsUnchanged(up, what) })

	fake.Inject(fault)
	_ = c.requireContextError(what, func(ctx context.Context) error { _, err := mounter.GetMetrics(ctx); return err })
	fake.ClearFaults()
	c.requirePodsUnchanged(up, "GetMetrics: "+what)

	fake.Inject(fault)
	err = c.requireContextError(what, unmounter.TearDown)
	c.requireTrue(fake, err, "TearDown: "+what, up, func() { c.requireDown(unmounter.GetPath()) })
	c.mustTearDown(spec)
}

// requireContextError runs work with a context that ends soon. Work must return, too, and its error must be
// the context's.
func (c *contract) requireContextError(what string, work func(context.Context) error) error {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 20*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	select {
	case err := <-done:
		if err != nil && !(c.NoMetrics && ctx.Err() == nil) {
			require.ErrorIs(c, err, context.DeadlineExceeded, what)
		}
		return err
	case <-time.After(2 * time.Minute):
		c.Fatalf("%s: the context has ended, and the call has not", what)
		return nil
	}
}

// contextEndsMeanwhile: the context ends at any moment, and the plugin's error is true.
func (c *contract) contextEndsMeanwhile() {
	spec := c.spec()
	mounter, unmounter := c.newMounter(spec), c.newUnmounter(spec)
	c.makeParents(mounter)
	for n := range repetitions() {
		gone := c.podState()
		err := c.runUntilStep(n, func(ctx context.Context) error { return mounter.SetUp(ctx, volume.MounterArgs{}) })
		c.requireHonest(err, gone, func() { c.requireUp(mounter.GetPath()) })
		c.retryTransient(func() error { return mounter.SetUp(c.Context(), volume.MounterArgs{}) })
		up := c.podState()
		err = c.runUntilStep(n, unmounter.TearDown)
		c.requireHonest(err, up, func() { c.requireDown(unmounter.GetPath()) })
		c.retryTransient(func() error { return unmounter.TearDown(c.Context()) })
		c.mustTearDown(spec)
	}
}

// retryTransient repeats work until it succeeds: an earlier call that still works may make it fail with
// a transient error.
func (c *contract) retryTransient(work func() error) {
	c.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if err = work(); volume.KindOf(err) != volume.Transient {
			break
		}
	}
	require.NoError(c, err)
}

// runUntilStep runs work with a context that ends after n steps of a few microseconds.
func (c *contract) runUntilStep(n int, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.Context(), time.Duration(n)*17*time.Microsecond)
	defer cancel()
	return work(ctx)
}

func (c *contract) requireHonest(err error, before state, done func()) {
	c.Helper()
	switch volume.KindOf(err) {
	case volume.Success:
		done()
	case volume.Uncertain:
	default:
		require.ErrorIs(c, err, context.DeadlineExceeded)
		c.requirePodsUnchanged(before, fmt.Sprintf("the error says that nothing has changed: %v", err))
	}
}

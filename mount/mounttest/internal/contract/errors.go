package contract

import (
	"path/filepath"
	"syscall"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// requireError requires an error to name its operation and target.
func (c *contract) requireError(err error, op, target string) {
	c.Helper()
	var failed *mount.Error
	require.ErrorAs(c, err, &failed)
	require.Equal(c, op, failed.Op)
	require.Equal(c, target, failed.Target)
}

// requireInputError requires an error to name the refused field and its value.
func (c *contract) requireInputError(err error, field, value string) {
	c.Helper()
	var input *mount.InputError
	require.ErrorAs(c, err, &input)
	require.Equal(c, field, input.Field)
	require.Equal(c, value, input.Value)
}

// errorClasses: errors.Is distinguishes the usual causes.
func (c *contract) errorClasses() {
	source, target := c.makeDir("source"), c.makeDir("target")
	c.makeDir("source/inner")
	within := filepath.Join(target, "inner")
	c.mount(mount.Request{Source: source, Target: target})
	c.mount(mount.Request{Source: source, Target: within})
	err := c.requireFails(mount.ErrBusy, func() error { return c.m.Unmount(c.Context(), target) })
	require.NotErrorIs(c, err, mount.ErrReadOnly)
	require.NotErrorIs(c, err, mount.ErrCorrupted)
	require.NotErrorIs(c, err, mount.ErrUncertain)
	require.NotErrorIs(c, err, mount.ErrNotAnswering)
	c.requireError(err, opUnmount, target)
	if c.fake == nil {
		return
	}
	for cause, class := range map[syscall.Errno]error{
		syscall.EBUSY: mount.ErrBusy, syscall.EROFS: mount.ErrReadOnly, syscall.ESTALE: mount.ErrCorrupted,
	} {
		c.fake.FailUnmount("", cause, 1)
		c.requireFails(class, func() error { return c.m.Unmount(c.Context(), within) })
	}
}

// The operations as mount.Error.Op has them.
const (
	opMount        = "mount"
	opUnmount      = "unmount"
	opUnmountTree  = "unmount tree"
	opIsolate      = "isolate"
	opIsMountPoint = "is mount point"
	opMountRefs    = "mount refs"
	opMountsFrom   = "mounts from"
	opResolve      = "resolve"
	opList         = "list"
)

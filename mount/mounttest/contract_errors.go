package mounttest

import (
	"path/filepath"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

// isOf makes sure that an error says what was done to what.
func (c *contract) isOf(err error, op, target string) {
	c.Helper()
	var failed *mount.Error
	require.ErrorAs(c, err, &failed)
	require.Equal(c, op, failed.Op)
	require.Equal(c, target, failed.Target)
}

// isInput makes sure that an error names the field that is at fault, and its value.
func (c *contract) isInput(err error, field, value string) {
	c.Helper()
	var input *mount.InputError
	require.ErrorAs(c, err, &input)
	require.Equal(c, field, input.Field)
	require.Equal(c, value, input.Value)
}

// errorClasses: the usual causes can be told apart.
func (c *contract) errorClasses() {
	source, target := c.mkdir("source"), c.mkdir("target")
	c.mkdir("source/inner")
	within := filepath.Join(target, "inner")
	c.mount(mount.Request{Source: source, Target: target})
	c.mount(mount.Request{Source: source, Target: within})
	err := c.fails(mount.ErrBusy, func() error { return c.m.Unmount(c.Context(), target) })
	require.NotErrorIs(c, err, mount.ErrReadOnly)
	require.NotErrorIs(c, err, mount.ErrCorrupted)
	require.NotErrorIs(c, err, mount.ErrUncertain)
	require.NotErrorIs(c, err, mount.ErrNotAnswering)
	c.isOf(err, OpUnmount, target)
	if c.fake == nil {
		return
	}
	for cause, class := range map[syscall.Errno]error{
		syscall.EBUSY: mount.ErrBusy, syscall.EROFS: mount.ErrReadOnly, syscall.ESTALE: mount.ErrCorrupted,
	} {
		c.fake.Inject(Fault{Op: OpUnmount, Err: cause, Times: 1})
		c.fails(class, func() error { return c.m.Unmount(c.Context(), within) })
	}
}

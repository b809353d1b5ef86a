package mounttest

import (
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

// endedContext: no method does anything for a context that has ended, and all say
// why it has.
func (c *contract) endedContext() {
	source, target := c.mkdir("source"), c.mkdir("target")
	other := c.mkdir("other")
	c.mount(mount.Request{Source: source, Target: target})
	cause := errors.New("the pod is gone")
	ctx, cancel := context.WithCancelCause(c.Context())
	cancel(cause)
	for op, call := range map[string]func() error{
		OpMount:      func() error { return c.m.Mount(ctx, mount.Request{Source: source, Target: other}) },
		"same mount": func() error { return c.m.Mount(ctx, mount.Request{Source: source, Target: target}) },
		"tmpfs":      func() error { return c.m.Mount(ctx, mount.Request{Source: "x", Target: other, FSType: "tmpfs"}) },
		"remount": func() error {
			return c.m.Mount(ctx, mount.Request{Target: target, Options: []string{"ro"}, Remount: true})
		},
		OpUnmount:      func() error { return c.m.Unmount(ctx, target) },
		"unmount none": func() error { return c.m.Unmount(ctx, other) },
		OpUnmountTree:  func() error { return c.m.UnmountTree(ctx, target) },
		OpIsMountPoint: func() error { _, err := c.m.IsMountPoint(ctx, target); return err },
		OpMountRefs:    func() error { _, err := c.m.MountRefs(ctx, source); return err },
		OpMountsFrom:   func() error { _, err := c.m.MountsFrom(ctx, "x"); return err },
		OpResolve:      func() error { _, err := c.m.Resolve(ctx, target); return err },
		OpList:         func() error { _, err := c.m.List(ctx); return err },
	} {
		err := c.fails(cause, call)
		require.ErrorIs(c, err, context.Canceled, op)
		var failed *mount.Error
		require.ErrorAs(c, err, &failed, op)
		require.NotErrorIs(c, err, mount.ErrUncertain, op)
	}
	c.isMountPoint(target, true)
	c.isMountPoint(other, false)
}

package contract

import (
	"context"
	"errors"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// endedContext: no method has an effect after the end of its context, and all return its
// cause.
func (c *contract) endedContext() {
	source, target := c.makeDir("source"), c.makeDir("target")
	other := c.makeDir("other")
	c.mount(mount.Request{Source: source, Target: target})
	cause := errors.New("the pod is gone")
	ctx, cancel := context.WithCancelCause(c.Context())
	cancel(cause)
	for op, call := range map[string]func() error{
		opMount:      func() error { return c.m.Mount(ctx, mount.Request{Source: source, Target: other}) },
		"same mount": func() error { return c.m.Mount(ctx, mount.Request{Source: source, Target: target}) },
		"tmpfs":      func() error { return c.m.Mount(ctx, mount.Request{Source: "x", Target: other, FSType: "tmpfs"}) },
		"remount": func() error {
			return c.m.Mount(ctx, mount.Request{Target: target, Options: []string{"ro"}, Remount: true})
		},
		opUnmount:      func() error { return c.m.Unmount(ctx, target) },
		"unmount none": func() error { return c.m.Unmount(ctx, other) },
		opUnmountTree:  func() error { return c.m.UnmountTree(ctx, target) },
		opIsMountPoint: func() error { _, err := c.m.IsMountPoint(ctx, target); return err },
		opMountRefs:    func() error { _, err := c.m.MountRefs(ctx, source); return err },
		opMountsFrom:   func() error { _, err := c.m.MountsFrom(ctx, "x"); return err },
		opResolve:      func() error { _, err := c.m.Resolve(ctx, target); return err },
		opList:         func() error { _, err := c.m.List(ctx); return err },
	} {
		err := c.requireFails(cause, call)
		require.ErrorIs(c, err, context.Canceled, op)
		var failed *mount.Error
		require.ErrorAs(c, err, &failed, op)
		require.NotErrorIs(c, err, mount.ErrUncertain, op)
	}
	c.requireMountPoint(target)
	c.requireNoMountPoint(other)
}

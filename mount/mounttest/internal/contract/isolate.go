package contract

import (
	"io/fs"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// isolate: mounts propagate no longer, and those that have propagated stay, also when the
// tree of an isolated mount is unmounted.
func (c *contract) isolate() {
	isolator, ok := mount.As[mount.Isolator](c.m)
	if !ok {
		return
	}
	source, target, other := c.makeDir("source"), c.makeDir("target"), c.makeDir("other")
	below, later := c.makeDir("source/below"), c.makeDir("source/later")
	c.makeDir("other/deep")
	deep := filepath.Join(below, "deep")
	isolate := func() { require.NoError(c, isolator.Isolate(c.Context(), target)) }
	isolate() // nothing
	c.mount(mount.Request{Source: source, Target: source, Propagation: mount.PropagationShared})
	for _, want := range []mount.Propagation{mount.PropagationPrivate, mount.PropagationSlave, mount.PropagationShared} {
		c.mount(mount.Request{Source: source, Target: target, Propagation: want})
		c.mount(mount.Request{Source: other, Target: below, Propagation: mount.PropagationShared})
		c.mount(mount.Request{Source: other, Target: deep})
		spread := want != mount.PropagationPrivate
		c.requireMountState(filepath.Join(target, "below"), spread)
		isolate()
		isolate()
		c.mount(mount.Request{Source: other, Target: later})
		c.requireNoMountPoint(filepath.Join(target, "later"))
		c.unmount(later)
		require.NoError(c, c.m.UnmountTree(c.Context(), target))
		c.requireNoMountPoint(target)
		c.requireMountPoint(deep)
		require.NoError(c, c.m.UnmountTree(c.Context(), below))
	}
	c.unmount(source)
	missing := c.path("missing")
	c.requireError(c.requireFails(fs.ErrNotExist, func() error { return isolator.Isolate(c.Context(), missing) }), opIsolate, missing)
}

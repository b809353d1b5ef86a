package mounttest

import (
	"io/fs"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

// isolate: nothing spreads any more, and what has spread stays, also when the tree of an
// isolated mount is unmounted.
func (c *contract) isolate() {
	isolator, ok := c.m.(mount.Isolator)
	if !ok {
		return
	}
	source, target, other := c.mkdir("source"), c.mkdir("target"), c.mkdir("other")
	below, later := c.mkdir("source/below"), c.mkdir("source/later")
	c.mkdir("other/deep")
	deep := filepath.Join(below, "deep")
	isolate := func() { require.NoError(c, isolator.Isolate(c.Context(), target)) }
	isolate() // nothing
	c.mount(mount.Request{Source: source, Target: source, Propagation: mount.PropagationShared})
	for _, want := range []mount.Propagation{mount.PropagationPrivate, mount.PropagationSlave, mount.PropagationShared} {
		c.mount(mount.Request{Source: source, Target: target, Propagation: want})
		c.mount(mount.Request{Source: other, Target: below, Propagation: mount.PropagationShared})
		c.mount(mount.Request{Source: other, Target: deep})
		spread := want != mount.PropagationPrivate
		c.isMountPoint(filepath.Join(target, "below"), spread)
		isolate()
		isolate()
		c.mount(mount.Request{Source: other, Target: later})
		c.isMountPoint(filepath.Join(target, "later"), false)
		c.unmount(later)
		require.NoError(c, c.m.UnmountTree(c.Context(), target))
		c.isMountPoint(target, false)
		c.isMountPoint(deep, true)
		require.NoError(c, c.m.UnmountTree(c.Context(), below))
	}
	c.unmount(source)
	missing := c.path("missing")
	c.isOf(c.fails(fs.ErrNotExist, func() error { return isolator.Isolate(c.Context(), missing) }), OpIsolate, missing)
}

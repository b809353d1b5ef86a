package contract

import (
	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// tmpfs: a mount of a file system has the requested type and source.
func (c *contract) tmpfs() {
	target := c.makeDir("target")
	c.mount(mount.Request{Source: "some name", Target: target, FSType: "tmpfs", Options: []string{"size=1m", "mode=700"}})
	info := c.entriesAt(target)[0]
	require.Equal(c, "tmpfs", info.FSType)
	require.Equal(c, "some name", info.Source)
	require.Equal(c, "/", info.Root)
	c.unmount(target)
	c.requireNoMountPoint(target)
}

// emptySource: List shows a file system with an empty source, and the mounts after it.
func (c *contract) emptySource() {
	target, other := c.makeDir("target"), c.makeDir("other")
	c.mount(mount.Request{Target: target, FSType: "tmpfs"})
	c.mount(mount.Request{Source: c.makeDir("source"), Target: other})
	require.Len(c, c.entriesAt(target), 1)
	require.Empty(c, c.entriesAt(target)[0].Source)
	require.Equal(c, "tmpfs", c.entriesAt(target)[0].FSType)
	require.Len(c, c.entriesAt(other), 1, "the entry after the empty source")
	c.unmount(target)
}

// partOfFileSystem: a part of a file system is not the file system.
func (c *contract) partOfFileSystem() {
	if c.fake != nil {
		c.Skip("file systems of a Fake have no directories")
	}
	tmpfs, target := c.makeDir("tmpfs"), c.makeDir("target")
	req := mount.Request{Source: "a", Target: tmpfs, FSType: "tmpfs"}
	c.mount(req)
	c.mount(mount.Request{Source: c.makeDir("tmpfs/sub"), Target: target})
	req.Target = target
	c.requireFails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), req) })
}

package mounttest

import (
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func (c *contract) tmpfs() {
	target := c.mkdir("target")
	c.mount(mount.Request{Source: "some name", Target: target, FSType: "tmpfs", Options: []string{"size=1m", "mode=700"}})
	info := c.at(target)[0]
	require.Equal(c, "tmpfs", info.FSType)
	require.Equal(c, "some name", info.Source)
	require.Equal(c, "/", info.Root)
	c.unmount(target)
	c.isMountPoint(target, false)
}

func (c *contract) emptySource() {
	target, other := c.mkdir("target"), c.mkdir("other")
	c.mount(mount.Request{Target: target, FSType: "tmpfs"})
	c.mount(mount.Request{Source: c.mkdir("source"), Target: other})
	require.Len(c, c.at(target), 1)
	require.Empty(c, c.at(target)[0].Source)
	require.Equal(c, "tmpfs", c.at(target)[0].FSType)
	require.Len(c, c.at(other), 1, "what comes after it in the table")
	c.unmount(target)
}

// partOfFileSystem: a part of a file system is not the file system.
func (c *contract) partOfFileSystem() {
	if c.fake != nil {
		c.Skip("the file systems that a Fake mounts have no parts")
	}
	tmpfs, target := c.mkdir("tmpfs"), c.mkdir("target")
	req := mount.Request{Source: "a", Target: tmpfs, FSType: "tmpfs"}
	c.mount(req)
	c.mount(mount.Request{Source: c.mkdir("tmpfs/sub"), Target: target})
	req.Target = target
	c.fails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), req) })
}

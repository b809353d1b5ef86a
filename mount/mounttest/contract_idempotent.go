package mounttest

import (
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func (c *contract) idempotent() {
	source, target := c.mkdir("source"), c.mkdir("target")
	for _, options := range [][]string{nil, {"ro", "noexec"}} {
		for range 3 {
			c.mount(mount.Request{Source: source, Target: target, Options: options})
			require.Len(c, c.at(target), 1)
		}
		c.unmount(target)
		for range 3 {
			c.unmount(target)
			c.isMountPoint(target, false)
		}
	}
}

func (c *contract) idempotentTmpfs() {
	target := c.mkdir("target")
	for range 3 {
		c.mount(mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: []string{"size=1m", "ro"}})
		require.Len(c, c.at(target), 1)
	}
	for _, req := range []mount.Request{
		{Source: "b", Target: target, FSType: "tmpfs", Options: []string{"ro"}},
		{Source: "a", Target: target, FSType: "tmpfs"},
		{Source: c.mkdir("source"), Target: target},
	} {
		c.fails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), req) })
	}
}

// Options for the file system are not compared: what it makes of them is not
// told in their words.
func (c *contract) idempotentData() {
	target := c.mkdir("target")
	for _, data := range [][]string{{"size=1m", "mode=700"}, {"size=1m", "mode=700"}, {"size=2m"}, nil} {
		req := mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: append(data, "noexec")}
		c.mount(req)
		require.Len(c, c.at(target), 1)
	}
	options := c.at(target)[0].SuperOptions
	c.mount(mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: []string{"size=2m", "noexec"}})
	require.Equal(c, options, c.at(target)[0].SuperOptions, "the mount that is there stays as it is")
	c.fails(mount.ErrMounted, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: []string{"size=1m", "mode=700"}})
	})
}

func (c *contract) somethingElse() {
	source, other, target := c.mkdir("source"), c.mkdir("other"), c.mkdir("target")
	c.mount(mount.Request{Source: source, Target: target})
	for _, req := range []mount.Request{
		{Source: other, Target: target},
		{Source: source, Target: target, Options: []string{"ro"}},
		{Source: source, Target: target, Options: []string{"noexec"}},
		{Source: "another", Target: target, FSType: "tmpfs"}, // the others may be on a tmpfs
	} {
		err := c.fails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), req) })
		var mountErr *mount.Error
		require.ErrorAs(c, err, &mountErr)
		require.Equal(c, "mount", mountErr.Op)
		require.Equal(c, target, mountErr.Target)
		require.Equal(c, req.Source, mountErr.Source)
	}
}

package mounttest

import (
	"path/filepath"
	"syscall"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func (c *contract) flags() {
	source := c.unlocked()
	safe := mount.NoSUID | mount.NoDev
	for _, test := range []struct {
		options []string
		want    mount.Flags
	}{
		{nil, safe},
		{[]string{"rw", "relatime"}, safe},
		{[]string{"nosuid", "nodev", "noexec"}, safe | mount.NoExec},
		{[]string{"ro", "noatime", "nodiratime"}, safe | mount.ReadOnly | mount.NoAtime | mount.NoDirAtime},
		{[]string{"strictatime"}, safe | mount.StrictAtime},
		{[]string{"nosymfollow", "_netdev", "nofail"}, safe | mount.NoSymFollow},
	} {
		target := c.mkdir("target")
		for _, req := range []mount.Request{
			{Source: source, Target: target, Options: test.options},
			{Source: "tmpfs", Target: target, FSType: "tmpfs", Options: test.options},
		} {
			c.mount(req)
			require.Equal(c, test.want.String(), c.at(target)[0].Flags.String(), "%+v", req)
			c.unmount(target)
		}
	}
}

func (c *contract) flagsAreInherited() {
	source, first, second := c.unlocked(), c.mkdir("first"), c.mkdir("second")
	c.mount(mount.Request{Source: source, Target: first, Options: []string{"ro", "noexec", "noatime"}})
	c.mount(mount.Request{Source: first, Target: second})
	require.Equal(c, c.at(first)[0].Flags.String(), c.at(second)[0].Flags.String())
	c.mount(mount.Request{Source: first, Target: second}) // the same again
	require.Len(c, c.at(second), 1)
	c.unmount(second)

	c.mount(mount.Request{Source: first, Target: second, Options: []string{"rw", "exec", "relatime"}})
	require.Equal(c, (mount.NoSUID | mount.NoDev).String(), c.at(second)[0].Flags.String())
	require.NoError(c, c.write(filepath.Join(second, "file")))
	require.ErrorIs(c, c.write(filepath.Join(first, "file")), syscall.EROFS)
}

func (c *contract) suidAndDev() {
	// Made first, it is cleaned up after what it mounts.
	allowing := c.new(mount.Config{Allow: mount.Allow{SUID: true, Dev: true}})
	source, target := c.mkdir("source"), c.mkdir("target")
	for _, option := range []string{"suid", "dev"} {
		c.refuses("Options[0]", mount.Request{Source: source, Target: target, Options: []string{option}})
	}
	c.m = allowing
	fs := mount.Request{Source: "tmpfs", Target: target, FSType: "tmpfs", Options: []string{"suid", "dev"}}
	c.mount(fs)
	require.Equal(c, "rw", c.at(target)[0].Flags.String())
}

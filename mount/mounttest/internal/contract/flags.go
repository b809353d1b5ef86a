package contract

import (
	"path/filepath"
	"syscall"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// flags: a mount has the flags that its options name, and nosuid and nodev.
func (c *contract) flags() {
	source := c.unlockedSource()
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
		target := c.makeDir("target")
		for _, req := range []mount.Request{
			{Source: source, Target: target, Options: test.options},
			{Source: "tmpfs", Target: target, FSType: "tmpfs", Options: test.options},
		} {
			c.mount(req)
			require.Equal(c, test.want.String(), c.entriesAt(target)[0].Flags.String(), "%+v", req)
			c.unmount(target)
		}
	}
}

// flagsAreInherited: a bind mount has the flags of its source's mount, except those that its
// options name.
func (c *contract) flagsAreInherited() {
	source, first, second := c.unlockedSource(), c.makeDir("first"), c.makeDir("second")
	c.mount(mount.Request{Source: source, Target: first, Options: []string{"ro", "noexec", "noatime"}})
	c.mount(mount.Request{Source: first, Target: second})
	require.Equal(c, c.entriesAt(first)[0].Flags.String(), c.entriesAt(second)[0].Flags.String())
	c.mount(mount.Request{Source: first, Target: second}) // idempotent
	require.Len(c, c.entriesAt(second), 1)
	c.unmount(second)

	c.mount(mount.Request{Source: first, Target: second, Options: []string{"rw", "exec", "relatime"}})
	require.Equal(c, (mount.NoSUID | mount.NoDev).String(), c.entriesAt(second)[0].Flags.String())
	require.NoError(c, c.writeFile(filepath.Join(second, "file")))
	require.ErrorIs(c, c.writeFile(filepath.Join(first, "file")), syscall.EROFS)
}

// suidAndDev: the options suid and dev are refused unless Config.Allow permits them.
func (c *contract) suidAndDev() {
	// Created first, so that it is closed after its mounts are undone.
	allowing := c.new(mount.Config{Allow: mount.Allow{SUID: true, Dev: true}})
	source, target := c.makeDir("source"), c.makeDir("target")
	for _, option := range []string{"suid", "dev"} {
		c.requireRefused("Options[0]", mount.Request{Source: source, Target: target, Options: []string{option}})
	}
	c.m = allowing
	fs := mount.Request{Source: "tmpfs", Target: target, FSType: "tmpfs", Options: []string{"suid", "dev"}}
	c.mount(fs)
	require.Equal(c, "rw", c.entriesAt(target)[0].Flags.String())
}

package contract

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// remount: a remount changes the flags that its options name, and is idempotent.
func (c *contract) remount() {
	source, bind, tmpfs := c.unlockedSource(), c.makeDir("bind"), c.makeDir("tmpfs")
	options := []string{"ro", "noexec"}
	c.mount(mount.Request{Source: source, Target: bind, Options: options})
	c.mount(mount.Request{Source: "tmpfs", Target: tmpfs, FSType: "tmpfs", Options: options[1:]})
	const safe = mount.NoSUID | mount.NoDev
	for _, step := range []struct {
		options []string
		want    mount.Flags
	}{
		{[]string{"ro"}, safe | mount.ReadOnly | mount.NoExec},
		{[]string{"rw"}, safe | mount.NoExec},
		{[]string{"exec", "noatime"}, safe | mount.NoAtime},
		{nil, safe | mount.NoAtime},
		{[]string{"nodiratime", "nosymfollow"}, safe | mount.NoAtime | mount.NoDirAtime | mount.NoSymFollow},
		{[]string{"strictatime", "diratime", "symfollow"}, safe | mount.StrictAtime},
		{[]string{"relatime", "_netdev", "ro", "nosuid"}, safe | mount.ReadOnly},
	} {
		for _, target := range []string{bind, tmpfs} {
			before := c.topEntry(target)
			for range 2 { // a remount is idempotent
				c.mount(mount.Request{Target: target, Options: step.options, Remount: true})
				info := c.topEntry(target)
				require.Equal(c, step.want.String(), info.Flags.String(), "%s %q", target, step.options)
				require.Equal(c, before.ID, info.ID, "a remount keeps the mount")
				require.Equal(c, before.SuperOptions, info.SuperOptions, "a remount keeps the options of the file system")
			}
		}
	}
	require.ErrorIs(c, c.writeFile(filepath.Join(bind, "file")), syscall.EROFS)
	c.mount(mount.Request{Target: bind, Options: []string{"rw"}, Remount: true})
	require.NoError(c, c.writeFile(filepath.Join(bind, "file")))
}

// remountOneMount: the source, its other bind mounts, and the mounts under and inside the
// mount keep their flags.
func (c *contract) remountOneMount() {
	source, target, other := c.unlockedSource(), c.makeDir("target"), c.makeDir("other")
	c.makeDir("unlocked/source/inside")
	for _, at := range []string{target, other, target} {
		c.mount(mount.Request{Source: source, Target: at, Stack: true})
	}
	inside := filepath.Join(target, "inside")
	c.mount(mount.Request{Source: other, Target: inside})
	before := c.table()
	c.mount(mount.Request{Target: target, Options: []string{"ro", "noexec"}, Remount: true})
	top := c.entriesAt(target)[1]
	for _, info := range c.table() {
		if info.ID != top.ID {
			require.Contains(c, before, info)
		}
	}
	require.Equal(c, (mount.ReadOnly | mount.NoExec | mount.NoSUID | mount.NoDev).String(), top.Flags.String())
	require.NoError(c, c.writeFile(filepath.Join(inside, "file")))
	require.NoError(c, c.writeFile(filepath.Join(source, "file")))
}

// remountReadOnly: a read-only file system does not become writable, and the mount keeps its flags.
func (c *contract) remountReadOnly() {
	target := c.makeDir("target")
	c.mount(mount.Request{Source: "tmpfs", Target: target, FSType: "tmpfs", Options: []string{"ro"}})
	err := c.requireFails(mount.ErrNotAsRequested, func() error {
		return c.m.Mount(c.Context(), mount.Request{Target: target, Options: []string{"rw", "noexec"}, Remount: true})
	})
	c.requireError(err, opMount, target)
}

// remountNothing: a remount of a path that is no mount point is ErrNotMounted.
func (c *contract) remountNothing() {
	dir, link := c.makeDir("dir"), c.path("link")
	require.NoError(c, os.Symlink(dir, link))
	for target, want := range map[string]error{
		dir: mount.ErrNotMounted, link: syscall.ELOOP, c.path("none"): fs.ErrNotExist,
	} {
		err := c.requireFails(want, func() error {
			return c.m.Mount(c.Context(), mount.Request{Target: target, Options: []string{"ro"}, Remount: true})
		})
		c.requireError(err, opMount, target)
	}
}

package mounttest

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

func (c *contract) remount() {
	source, bind, tmpfs := c.unlocked(), c.mkdir("bind"), c.mkdir("tmpfs")
	asked := []string{"ro", "noexec"}
	c.mount(mount.Request{Source: source, Target: bind, Options: asked})
	c.mount(mount.Request{Source: "tmpfs", Target: tmpfs, FSType: "tmpfs", Options: asked[1:]})
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
			before := c.top(target)
			for range 2 { // it is idempotent
				c.mount(mount.Request{Target: target, Options: step.options, Remount: true})
				info := c.top(target)
				require.Equal(c, step.want.String(), info.Flags.String(), "%s %q", target, step.options)
				require.Equal(c, before.ID, info.ID, "it is the same mount")
				require.Equal(c, before.SuperOptions, info.SuperOptions, "the file system stays as it is")
			}
		}
	}
	require.ErrorIs(c, c.write(filepath.Join(bind, "file")), syscall.EROFS)
	c.mount(mount.Request{Target: bind, Options: []string{"rw"}, Remount: true})
	require.NoError(c, c.write(filepath.Join(bind, "file")))
}

// remountOneMount: the source, other binds of it, and what is under the mount or
// inside it, keep their flags.
func (c *contract) remountOneMount() {
	source, target, other := c.unlocked(), c.mkdir("target"), c.mkdir("other")
	c.mkdir("unlocked/source/inside")
	for _, at := range []string{target, other, target} {
		c.mount(mount.Request{Source: source, Target: at, Stack: true})
	}
	inside := filepath.Join(target, "inside")
	c.mount(mount.Request{Source: other, Target: inside})
	before := c.table()
	c.mount(mount.Request{Target: target, Options: []string{"ro", "noexec"}, Remount: true})
	top := c.at(target)[1]
	for _, info := range c.table() {
		if info.ID != top.ID {
			require.Contains(c, before, info)
		}
	}
	require.Equal(c, (mount.ReadOnly | mount.NoExec | mount.NoSUID | mount.NoDev).String(), top.Flags.String())
	require.NoError(c, c.write(filepath.Join(inside, "file")))
	require.NoError(c, c.write(filepath.Join(source, "file")))
}

func (c *contract) remountNothing() {
	dir, link := c.mkdir("dir"), c.path("link")
	require.NoError(c, os.Symlink(dir, link))
	for target, want := range map[string]error{
		dir: mount.ErrNotMounted, link: syscall.ELOOP, c.path("none"): fs.ErrNotExist,
	} {
		err := c.fails(want, func() error {
			return c.m.Mount(c.Context(), mount.Request{Target: target, Options: []string{"ro"}, Remount: true})
		})
		c.isOf(err, OpMount, target)
	}
}

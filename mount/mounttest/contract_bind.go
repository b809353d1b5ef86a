package mounttest

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func (c *contract) bind() {
	source, target := c.mkdir("source"), c.mkdir("target")
	c.isMountPoint(target, false)
	c.mount(mount.Request{Source: source, Target: target})
	c.isMountPoint(target, true)
	c.isMountPoint(source, false)
	require.NoError(c, c.write(filepath.Join(target, "file")))
	c.exists(filepath.Join(source, "file"))
	require.Len(c, c.at(target), 1)
	require.Zero(c, c.at(target)[0].Flags&mount.ReadOnly)

	c.unmount(target)
	c.isMountPoint(target, false)
	c.exists(filepath.Join(source, "file"))
}

func (c *contract) bindFile() {
	source, target := c.path("source"), c.path("target")
	require.NoError(c, os.WriteFile(source, nil, 0o644))
	require.NoError(c, os.WriteFile(target, nil, 0o644))
	c.Cleanup(func() { c.unmountAll(target) })
	c.mount(mount.Request{Source: source, Target: target, Options: []string{"ro"}})
	c.isMountPoint(target, true)
	require.ErrorIs(c, c.write(target), syscall.EROFS)
	require.NoError(c, c.write(source))
	c.unmount(target)
	c.isMountPoint(target, false)
}

func (c *contract) readOnly() {
	source, target := c.mkdir("source"), c.mkdir("target")
	c.mount(mount.Request{Source: source, Target: target, Options: []string{"ro"}})
	require.ErrorIs(c, c.write(filepath.Join(target, "file")), syscall.EROFS)
	require.NotZero(c, c.at(target)[0].Flags&mount.ReadOnly)
	require.NoError(c, c.write(filepath.Join(source, "file")), "the source stays writable")

	fs := c.mkdir("tmpfs")
	c.mount(mount.Request{Source: "tmpfs", Target: fs, FSType: "tmpfs", Options: []string{"ro"}})
	require.NotZero(c, c.at(fs)[0].Flags&mount.ReadOnly)
}

func (c *contract) noLinks() {
	source, target := c.mkdir("real/source"), c.mkdir("real/target")
	require.NoError(c, os.Symlink(c.path("real"), c.path("way")))
	require.NoError(c, os.Symlink(source, c.path("source")))
	require.NoError(c, os.Symlink(target, c.path("target")))
	for _, req := range []mount.Request{
		{Source: source, Target: c.path("way/target")},
		{Source: source, Target: c.path("target")},
		{Source: c.path("way/source"), Target: target},
		{Source: c.path("source"), Target: target},
		{Source: "tmpfs", Target: c.path("target"), FSType: "tmpfs"},
	} {
		c.fails(syscall.ELOOP, func() error { return c.m.Mount(c.Context(), req) })
	}
	c.mount(mount.Request{Source: source, Target: target})
	c.fails(syscall.ELOOP, func() error { return c.m.Unmount(c.Context(), c.path("way/target")) })
}

func (c *contract) missing() {
	dir, none := c.mkdir("dir"), c.path("none")
	for _, call := range []func() error{
		func() error { return c.m.Mount(c.Context(), mount.Request{Source: none, Target: dir}) },
		func() error { return c.m.Mount(c.Context(), mount.Request{Source: dir, Target: none}) },
		func() error { return c.m.Mount(c.Context(), mount.Request{Source: dir, Target: none + "/deep"}) },
		func() error {
			return c.m.Mount(c.Context(), mount.Request{Source: "x", Target: none, FSType: "tmpfs"})
		},
		func() error { return c.m.Unmount(c.Context(), none) },
		func() error { _, err := c.m.IsMountPoint(c.Context(), none); return err },
		func() error { _, err := c.m.MountRefs(c.Context(), none); return err },
		func() error { _, err := c.m.Resolve(c.Context(), none); return err },
		func() error { return c.m.UnmountTree(c.Context(), none) },
		func() error { return c.m.Mount(c.Context(), mount.Request{Target: none, Remount: true}) },
	} {
		err := c.fails(fs.ErrNotExist, call)
		require.ErrorIs(c, err, syscall.ENOENT)
		var mountErr *mount.Error
		require.ErrorAs(c, err, &mountErr)
		require.Contains(c, err.Error(), none, "the message names the path")
	}
}

func (c *contract) directoryOrFile() {
	dir, file := c.mkdir("dir"), c.path("file")
	require.NoError(c, os.WriteFile(file, nil, 0o644))
	c.fails(syscall.ENOTDIR, func() error { return c.m.Mount(c.Context(), mount.Request{Source: dir, Target: file}) })
	c.fails(syscall.ENOTDIR, func() error { return c.m.Mount(c.Context(), mount.Request{Source: file, Target: dir}) })
	c.fails(syscall.ENOTDIR, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: "x", Target: file, FSType: "tmpfs"})
	})
	c.isMountPoint(file, false)
}

func (c *contract) strangeNames() {
	for _, name := range []string{
		" ", "a b", "tab\there", "new\nline", `back\slash`, `octal\040`, "#hash", "-", "ünïcode",
		"\xff\xfe", "a,b=c", "ro - tmpfs x rw", "..data", "...", "'\"$(id)",
	} {
		source, target := c.mkdir("source/"+name), c.mkdir("target/"+name)
		again := c.mkdir("again/" + name)
		c.mount(mount.Request{Source: source, Target: target})
		c.mount(mount.Request{Source: source, Target: again})
		c.isMountPoint(target, true)
		c.isMountPoint(again, true)
		refs, err := c.m.MountRefs(c.Context(), target)
		require.NoError(c, err)
		require.Equal(c, []string{again}, refs)
		require.Equal(c, filepath.Base(source), filepath.Base(c.at(target)[0].Root))
		c.unmount(target)
		c.unmount(again)
		c.isMountPoint(target, false)
	}
}

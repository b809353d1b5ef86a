package mounttest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

// leads makes sure that a path leads to a place in the mount that is visible at
// mountpoint.
func (c *contract) leads(p, mountpoint, place string) {
	c.Helper()
	found, err := c.m.Resolve(c.Context(), p)
	require.NoError(c, err)
	want, ok := c.table().At(mountpoint)
	require.True(c, ok)
	require.Equal(c, want, found.Mount)
	require.Equal(c, place, found.Path)
}

func (c *contract) resolve() {
	source, target := c.mkdir("source"), c.mkdir("target")
	c.mkdir("source/sub/deep")
	file := filepath.Join(source, "sub/file")
	require.NoError(c, os.WriteFile(file, nil, 0o644))
	base, ok := c.table().Containing(source)
	require.True(c, ok)
	c.leads(file, base.Mountpoint, path.Join("/", rest(base.Mountpoint, file)))

	c.mount(mount.Request{Source: filepath.Join(source, "sub"), Target: target, Options: []string{"ro"}})
	c.leads(target, target, "/")
	c.leads(target+"/./", target, "/")
	c.leads(filepath.Join(target, "deep"), target, "/deep")
	c.leads(filepath.Join(target, "file"), target, "/file")
	c.leads(source, base.Mountpoint, path.Join("/", rest(base.Mountpoint, source)))
	root, err := c.m.Resolve(c.Context(), "/")
	require.NoError(c, err)
	require.Equal(c, "/", root.Mount.Mountpoint)
	require.Equal(c, "/", root.Path)
	for _, none := range []string{filepath.Join(target, "none"), filepath.Join(source, "none/deep")} {
		_, err := c.m.Resolve(c.Context(), none)
		require.ErrorIs(c, err, fs.ErrNotExist)
		c.isOf(err, OpResolve, none)
	}

	// A file is a place, too.
	c.mount(mount.Request{Source: file, Target: filepath.Join(source, "sub/file")})
	c.leads(file, file, "/")
	c.unmount(file)
}

func (c *contract) resolveLinks() {
	source, target := c.mkdir("source"), c.mkdir("target")
	c.mkdir("source/sub/deep")
	c.mount(mount.Request{Source: source, Target: target})
	require.NoError(c, os.Symlink(target, c.path("link")))
	require.NoError(c, os.Symlink("sub", filepath.Join(source, "relative")))
	require.NoError(c, os.Symlink("loop", c.path("loop")))
	c.leads(c.path("link/sub"), target, "/sub")
	c.leads(c.path("link/relative/deep"), target, "/sub/deep")
	c.leads(filepath.Join(target, "relative"), target, "/relative") // itself, not what it leads to
	base, ok := c.table().Containing(c.dir)
	require.True(c, ok)
	c.leads(c.path("link"), base.Mountpoint, path.Join("/", rest(base.Mountpoint, c.path("link"))))
	_, err := c.m.Resolve(c.Context(), c.path("loop/sub"))
	require.Error(c, err)
}

func (c *contract) resolveStack() {
	target := c.mkdir("target")
	for _, name := range []string{"first", "second"} {
		c.mkdir(name + "/only-" + name)
		c.mount(mount.Request{Source: c.path(name), Target: target, Stack: true})
	}
	c.leads(target, target, "/")
	c.leads(filepath.Join(target, "only-second"), target, "/only-second")
	_, err := c.m.Resolve(c.Context(), filepath.Join(target, "only-first"))
	require.ErrorIs(c, err, fs.ErrNotExist)
	c.unmount(target)
	c.leads(filepath.Join(target, "only-first"), target, "/only-first")
}

package contract

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// requireResolves requires a path to resolve to a place in the visible mount at mountpoint.
func (c *contract) requireResolves(p, mountpoint, place string) {
	c.Helper()
	found, err := c.m.Resolve(c.Context(), p)
	require.NoError(c, err)
	want, ok := c.table().At(mountpoint)
	require.True(c, ok)
	require.Equal(c, want, found.Mount)
	require.Equal(c, place, found.Path)
}

// resolve: Resolve returns the visible mount that contains a path, and the path in it.
func (c *contract) resolve() {
	source, target := c.makeDir("source"), c.makeDir("target")
	c.makeDir("source/sub/deep")
	file := filepath.Join(source, "sub/file")
	require.NoError(c, os.WriteFile(file, nil, 0o644))
	base, ok := c.table().Containing(source)
	require.True(c, ok)
	c.requireResolves(file, base.Mountpoint, path.Join("/", relativePath(base.Mountpoint, file)))

	c.mount(mount.Request{Source: filepath.Join(source, "sub"), Target: target, Options: []string{"ro"}})
	c.requireResolves(target, target, "/")
	c.requireResolves(target+"/./", target, "/")
	c.requireResolves(filepath.Join(target, "deep"), target, "/deep")
	c.requireResolves(filepath.Join(target, "file"), target, "/file")
	c.requireResolves(source, base.Mountpoint, path.Join("/", relativePath(base.Mountpoint, source)))
	root, err := c.m.Resolve(c.Context(), "/")
	require.NoError(c, err)
	require.Equal(c, "/", root.Mount.Mountpoint)
	require.Equal(c, "/", root.Path)
	for _, none := range []string{filepath.Join(target, "none"), filepath.Join(source, "none/deep")} {
		_, err := c.m.Resolve(c.Context(), none)
		require.ErrorIs(c, err, fs.ErrNotExist)
		c.requireError(err, opResolve, none)
	}

	// The mount point is a file.
	c.mount(mount.Request{Source: file, Target: filepath.Join(source, "sub/file")})
	c.requireResolves(file, file, "/")
	c.unmount(file)
}

// resolveLinks: Resolve follows symbolic links on the way, but not a link at the path.
func (c *contract) resolveLinks() {
	source, target := c.makeDir("source"), c.makeDir("target")
	c.makeDir("source/sub/deep")
	c.mount(mount.Request{Source: source, Target: target})
	require.NoError(c, os.Symlink(target, c.path("link")))
	require.NoError(c, os.Symlink("sub", filepath.Join(source, "relative")))
	require.NoError(c, os.Symlink("loop", c.path("loop")))
	c.requireResolves(c.path("link/sub"), target, "/sub")
	c.requireResolves(c.path("link/relative/deep"), target, "/sub/deep")
	c.requireResolves(filepath.Join(target, "relative"), target, "/relative") // the link itself, not its target
	base, ok := c.table().Containing(c.dir)
	require.True(c, ok)
	c.requireResolves(c.path("link"), base.Mountpoint, path.Join("/", relativePath(base.Mountpoint, c.path("link"))))
	_, err := c.m.Resolve(c.Context(), c.path("loop/sub"))
	require.Error(c, err)
}

// resolveStack: Resolve returns the top mount of a stack.
func (c *contract) resolveStack() {
	target := c.makeDir("target")
	for _, name := range []string{"first", "second"} {
		c.makeDir(name + "/only-" + name)
		c.mount(mount.Request{Source: c.path(name), Target: target, Stack: true})
	}
	c.requireResolves(target, target, "/")
	c.requireResolves(filepath.Join(target, "only-second"), target, "/only-second")
	_, err := c.m.Resolve(c.Context(), filepath.Join(target, "only-first"))
	require.ErrorIs(c, err, fs.ErrNotExist)
	c.unmount(target)
	c.requireResolves(filepath.Join(target, "only-first"), target, "/only-first")
}

// relativePath returns the part of p after dir, which p is below.
func relativePath(dir, p string) string { return strings.TrimPrefix(strings.TrimPrefix(p, dir), "/") }

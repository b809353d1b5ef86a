package contract

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// deleted: a bind mount of a removed directory is marked as deleted, differs from a new
// directory at its path, and is neither source nor target of a mount.
func (c *contract) deleted() {
	source, target := c.makeDir("source"), c.makeDir("target")
	other, empty := c.makeDir("other"), c.makeDir("empty")
	c.mount(mount.Request{Source: source, Target: target})
	c.mount(mount.Request{Source: source, Target: other})
	root := c.entriesAt(target)[0].Root
	require.False(c, c.entriesAt(target)[0].Deleted)
	require.NoError(c, os.Remove(source))
	c.requireDeleted(root, target)
	c.requireRefs(target, other)
	c.requireFails(fs.ErrNotExist, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: source, Target: target})
	})

	// A new directory at the same path is another one.
	require.NoError(c, os.Mkdir(source, 0o755))
	c.requireDeleted(root, target)
	c.requireRefs(source)
	c.requireRefs(target, other)
	again := mount.Request{Source: source, Target: target}
	c.requireFails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), again) })
	again.Stack = true
	c.requireFails(fs.ErrNotExist, func() error { return c.m.Mount(c.Context(), again) })
	_, err := c.m.IsMountPoint(c.Context(), filepath.Join(target, "file"))
	require.ErrorIs(c, err, fs.ErrNotExist, "a removed directory is empty")

	// The same directory bound elsewhere before is still the same; it is not bound again.
	c.requireDeleted(root, other)
	c.mount(mount.Request{Source: target, Target: other})
	c.requireFails(fs.ErrNotExist, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: target, Target: empty})
	})
	c.unmount(other)
	c.unmount(target)
	c.requireNoMountPoint(target)
	again.Stack = false
	c.mount(again)
	require.False(c, c.entriesAt(target)[0].Deleted)
	c.requireRefs(source, target)
}

// deletedFile: a bind mount of a file that was replaced is marked as deleted, and is no
// reference to the new file.
func (c *contract) deletedFile() {
	source, target, other := c.path("source"), c.path("target"), c.path("other")
	for _, file := range []string{source, target, other} {
		require.NoError(c, os.WriteFile(file, nil, 0o644))
	}
	c.Cleanup(func() { c.unmountAll(target) })
	c.mount(mount.Request{Source: source, Target: target})
	root := c.entriesAt(target)[0].Root
	require.NoError(c, os.Rename(other, source))
	c.requireDeleted(root, target)
	c.requireRefs(source)
	c.unmount(target)
}

// requireDeleted requires the root of the mount at target to be marked as removed.
func (c *contract) requireDeleted(root, target string) {
	c.Helper()
	c.requireMountPoint(target)
	info := c.entriesAt(target)[0]
	require.True(c, info.Deleted, "%+v", info)
	require.Equal(c, root, info.Root)
	list, err := c.m.List(c.Context())
	require.NoError(c, err)
	require.Empty(c, mount.Table(list).Origins(target))
}

package mounttest

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func (c *contract) deleted() {
	source, target := c.mkdir("source"), c.mkdir("target")
	other, empty := c.mkdir("other"), c.mkdir("empty")
	c.mount(mount.Request{Source: source, Target: target})
	c.mount(mount.Request{Source: source, Target: other})
	root := c.at(target)[0].Root
	require.False(c, c.at(target)[0].Deleted)
	require.NoError(c, os.Remove(source))
	c.isDeleted(root, target)
	c.refsAre(target, other)
	c.fails(fs.ErrNotExist, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: source, Target: target})
	})

	// A new directory at the same path is another one.
	require.NoError(c, os.Mkdir(source, 0o755))
	c.isDeleted(root, target)
	c.refsAre(source)
	c.refsAre(target, other)
	again := mount.Request{Source: source, Target: target}
	c.fails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), again) })
	again.Stack = true
	c.fails(fs.ErrNotExist, func() error { return c.m.Mount(c.Context(), again) })
	_, err := c.m.IsMountPoint(c.Context(), filepath.Join(target, "file"))
	require.ErrorIs(c, err, fs.ErrNotExist, "what is removed is empty")

	// What was bound elsewhere before is still the same; it is not bound again.
	c.isDeleted(root, other)
	c.mount(mount.Request{Source: target, Target: other})
	c.fails(fs.ErrNotExist, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: target, Target: empty})
	})
	c.unmount(other)
	c.unmount(target)
	c.isMountPoint(target, false)
	again.Stack = false
	c.mount(again)
	require.False(c, c.at(target)[0].Deleted)
	c.refsAre(source, target)
}

func (c *contract) deletedFile() {
	source, target, other := c.path("source"), c.path("target"), c.path("other")
	for _, file := range []string{source, target, other} {
		require.NoError(c, os.WriteFile(file, nil, 0o644))
	}
	c.Cleanup(func() { c.unmountAll(target) })
	c.mount(mount.Request{Source: source, Target: target})
	root := c.at(target)[0].Root
	require.NoError(c, os.Rename(other, source))
	c.isDeleted(root, target)
	c.refsAre(source)
	c.unmount(target)
}

// isDeleted makes sure that what is mounted at target is known to be removed.
func (c *contract) isDeleted(root, target string) {
	c.Helper()
	c.isMountPoint(target, true)
	info := c.at(target)[0]
	require.True(c, info.Deleted, "%+v", info)
	require.Equal(c, root, info.Root)
	list, err := c.m.List(c.Context())
	require.NoError(c, err)
	require.Empty(c, mount.Table(list).Origins(target))
}

package mounttest

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func (c *contract) stack() {
	first, second, target := c.mkdir("first"), c.mkdir("second"), c.mkdir("target")
	c.mount(mount.Request{Source: first, Target: target, Stack: true})
	c.mount(mount.Request{Source: second, Target: target, Stack: true})
	c.mount(mount.Request{Source: second, Target: target, Stack: true})
	infos := c.at(target)
	require.Len(c, infos, 3, "List has the hidden ones, too")
	require.Equal(c, infos[0].ID, infos[1].Parent)
	require.Equal(c, infos[1].ID, infos[2].Parent)
	require.NoError(c, c.write(filepath.Join(target, "file")))
	c.exists(filepath.Join(second, "file"))

	for left := 2; left >= 0; left-- {
		c.unmount(target)
		require.Len(c, c.at(target), left)
	}
	c.isMountPoint(target, false)
}

func (c *contract) unmountNothing() {
	dir := c.mkdir("dir")
	c.unmount(dir)
	target := c.mkdir("target")
	link := c.path("link")
	require.NoError(c, os.Symlink(target, link))
	c.mount(mount.Request{Source: dir, Target: target})
	c.unmount(link)
	c.isMountPoint(target, true)
	c.isMountPoint(link, false)
	c.fails(fs.ErrNotExist, func() error { return c.m.Unmount(c.Context(), c.path("none")) })
}

func (c *contract) unmountBusy() {
	source, target := c.mkdir("source"), c.mkdir("target")
	inner := c.mkdir("source/inner")
	c.mount(mount.Request{Source: source, Target: target})
	within := filepath.Join(target, "inner")
	c.mount(mount.Request{Source: inner, Target: within})
	c.fails(syscall.EBUSY, func() error { return c.m.Unmount(c.Context(), target) })
	c.unmount(within)

	if c.fake == nil {
		f, err := os.Open(target)
		require.NoError(c, err)
		err = c.fails(syscall.EBUSY, func() error { return c.m.Unmount(c.Context(), target) })
		require.NoError(c, f.Close())
		require.NotErrorIs(c, err, mount.ErrUncertain)
	}
	c.unmount(target)
	c.isMountPoint(target, false)
}

// nested mounts something at target, in it at inner, and in that at deep.
func (c *contract) nested(target string) (inner, deep string) {
	c.Helper()
	c.mkdir("tree/inner/deep")
	inner, deep = filepath.Join(target, "inner"), filepath.Join(target, "inner/deep")
	c.mount(mount.Request{Source: c.path("tree"), Target: target, Stack: true})
	c.mount(mount.Request{Source: c.path("tree/inner"), Target: inner})
	c.mount(mount.Request{Source: c.path("tree"), Target: deep})
	return inner, deep
}

func (c *contract) unmountTree() {
	target, beside := c.mkdir("target"), c.mkdir("target-beside")
	c.mount(mount.Request{Source: c.mkdir("tree"), Target: beside})
	before := c.table()
	inner, deep := c.nested(target)
	c.mount(mount.Request{Source: c.path("tree"), Target: deep, Stack: true})
	c.mount(mount.Request{Source: c.path("tree"), Target: inner, Stack: true}) // over it all
	require.Len(c, c.table(), len(before)+5)
	require.NoError(c, c.m.UnmountTree(c.Context(), target+"/."))
	require.Equal(c, before, c.table())
	require.NoError(c, c.m.UnmountTree(c.Context(), target), "it is idempotent")
}

// unmountTreeOfStack: what is under the top mount, with all in it, stays.
func (c *contract) unmountTreeOfStack() {
	target := c.mkdir("target")
	c.nested(target)
	before := c.table()
	c.nested(target)
	require.NoError(c, c.m.UnmountTree(c.Context(), target))
	require.Equal(c, before, c.table())
}

func (c *contract) unmountTreeNothing() {
	dir := c.mkdir("dir")
	target := c.mkdir("dir/target")
	c.mount(mount.Request{Source: c.mkdir("source"), Target: target})
	before := c.table()
	require.NoError(c, os.Symlink(target, c.path("link")))
	for _, nothing := range []string{dir, c.path("link")} {
		require.NoError(c, c.m.UnmountTree(c.Context(), nothing))
		require.Equal(c, before, c.table(), "it is no mount point")
	}
	err := c.fails(fs.ErrNotExist, func() error { return c.m.UnmountTree(c.Context(), c.path("none")) })
	c.isOf(err, OpUnmountTree, c.path("none"))
}

func (c *contract) unmountTreeNoLinks() {
	c.mkdir("dir")
	target := c.mkdir("dir/target")
	c.mount(mount.Request{Source: c.mkdir("source"), Target: target})
	require.NoError(c, os.Symlink(c.path("dir"), c.path("way")))
	c.fails(syscall.ELOOP, func() error { return c.m.UnmountTree(c.Context(), c.path("way/target")) })
}

// unmountTreeBusy: what is unmounted by then stays so.
func (c *contract) unmountTreeBusy() {
	target := c.mkdir("target")
	inner, deep := c.nested(target)
	free := c.keepBusy(inner)
	err := c.m.UnmountTree(c.Context(), target)
	free()
	require.ErrorIs(c, err, mount.ErrBusy)
	require.ErrorContains(c, err, inner, "the message names what is in use")
	c.isOf(err, OpUnmountTree, target)
	c.isMountPoint(target, true)
	c.isMountPoint(inner, true)
	c.isMountPoint(deep, false)
	require.NoError(c, c.m.UnmountTree(c.Context(), target))
	c.isMountPoint(target, false)
}

// keepBusy keeps a mount in use until it is freed.
func (c *contract) keepBusy(target string) (free func()) {
	c.Helper()
	if c.fake != nil {
		c.fake.Inject(Fault{Op: OpUnmount, Path: target, Err: syscall.EBUSY})
		return c.fake.ClearFaults
	}
	f, err := os.Open(target)
	require.NoError(c, err)
	return func() { require.NoError(c, f.Close()) }
}

// unmountTreeRetrying is for a mount that somebody may have a look at.
func (c *contract) unmountTreeRetrying(target string) {
	c.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		err := c.m.UnmountTree(c.Context(), target)
		if err == nil {
			return
		}
		require.ErrorIs(c, err, mount.ErrBusy)
		require.True(c, time.Now().Before(deadline), "busy for too long")
	}
}

package contract

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// stack: Stack mounts on top of existing mounts, and Unmount removes one mount.
func (c *contract) stack() {
	first, second, target := c.makeDir("first"), c.makeDir("second"), c.makeDir("target")
	c.mount(mount.Request{Source: first, Target: target, Stack: true})
	c.mount(mount.Request{Source: second, Target: target, Stack: true})
	c.mount(mount.Request{Source: second, Target: target, Stack: true})
	infos := c.entriesAt(target)
	require.Len(c, infos, 3, "List includes hidden mounts")
	require.Equal(c, infos[0].ID, infos[1].Parent)
	require.Equal(c, infos[1].ID, infos[2].Parent)
	require.NoError(c, c.writeFile(filepath.Join(target, "file")))
	c.requireExists(filepath.Join(second, "file"))

	for left := 2; left >= 0; left-- {
		c.unmount(target)
		require.Len(c, c.entriesAt(target), left)
	}
	c.requireNoMountPoint(target)
}

// unmountNothing: Unmount of a path that is no mount point, or of a link, succeeds without a
// change.
func (c *contract) unmountNothing() {
	dir := c.makeDir("dir")
	c.unmount(dir)
	target := c.makeDir("target")
	link := c.path("link")
	require.NoError(c, os.Symlink(target, link))
	c.mount(mount.Request{Source: dir, Target: target})
	c.unmount(link)
	c.requireMountPoint(target)
	c.requireNoMountPoint(link)
	c.requireFails(fs.ErrNotExist, func() error { return c.m.Unmount(c.Context(), c.path("none")) })
}

// unmountBusy: Unmount of a mount with open files or mounts inside is EBUSY.
func (c *contract) unmountBusy() {
	source, target := c.makeDir("source"), c.makeDir("target")
	inner := c.makeDir("source/inner")
	c.mount(mount.Request{Source: source, Target: target})
	within := filepath.Join(target, "inner")
	c.mount(mount.Request{Source: inner, Target: within})
	c.requireFails(syscall.EBUSY, func() error { return c.m.Unmount(c.Context(), target) })
	c.unmount(within)

	if c.fake == nil {
		f, err := os.Open(target)
		require.NoError(c, err)
		err = c.requireFails(syscall.EBUSY, func() error { return c.m.Unmount(c.Context(), target) })
		require.NoError(c, f.Close())
		require.NotErrorIs(c, err, mount.ErrUncertain)
	}
	c.unmount(target)
	c.requireNoMountPoint(target)
}

// mountNested mounts a tmpfs at target, another in it at inner, and one in that at deep.
func (c *contract) mountNested(target string) (inner, deep string) {
	c.Helper()
	c.makeDir("tree/inner/deep")
	inner, deep = filepath.Join(target, "inner"), filepath.Join(target, "inner/deep")
	c.mount(mount.Request{Source: c.path("tree"), Target: target, Stack: true})
	c.mount(mount.Request{Source: c.path("tree/inner"), Target: inner})
	c.mount(mount.Request{Source: c.path("tree"), Target: deep})
	return inner, deep
}

// unmountTree: UnmountTree unmounts a mount with all mounts inside it, and no other.
func (c *contract) unmountTree() {
	target, beside := c.makeDir("target"), c.makeDir("target-beside")
	c.mount(mount.Request{Source: c.makeDir("tree"), Target: beside})
	before := c.table()
	inner, deep := c.mountNested(target)
	c.mount(mount.Request{Source: c.path("tree"), Target: deep, Stack: true})
	c.mount(mount.Request{Source: c.path("tree"), Target: inner, Stack: true}) // covers inner and deep
	require.Len(c, c.table(), len(before)+5)
	require.NoError(c, c.m.UnmountTree(c.Context(), target+"/."))
	require.Equal(c, before, c.table())
	require.NoError(c, c.m.UnmountTree(c.Context(), target), "UnmountTree is idempotent")
}

// unmountTreeOfStack: the mount under the top mount, with those inside it, stays.
func (c *contract) unmountTreeOfStack() {
	target := c.makeDir("target")
	c.mountNested(target)
	before := c.table()
	c.mountNested(target)
	require.NoError(c, c.m.UnmountTree(c.Context(), target))
	require.Equal(c, before, c.table())
}

// unmountTreeNothing: UnmountTree of a path that is no mount point succeeds without a change.
func (c *contract) unmountTreeNothing() {
	dir := c.makeDir("dir")
	target := c.makeDir("dir/target")
	c.mount(mount.Request{Source: c.makeDir("source"), Target: target})
	before := c.table()
	require.NoError(c, os.Symlink(target, c.path("link")))
	for _, nothing := range []string{dir, c.path("link")} {
		require.NoError(c, c.m.UnmountTree(c.Context(), nothing))
		require.Equal(c, before, c.table(), "the path is no mount point")
	}
	err := c.requireFails(fs.ErrNotExist, func() error { return c.m.UnmountTree(c.Context(), c.path("none")) })
	c.requireError(err, opUnmountTree, c.path("none"))
}

// unmountTreeNoLinks: UnmountTree of a path below a symbolic link is ELOOP.
func (c *contract) unmountTreeNoLinks() {
	c.makeDir("dir")
	target := c.makeDir("dir/target")
	c.mount(mount.Request{Source: c.makeDir("source"), Target: target})
	require.NoError(c, os.Symlink(c.path("dir"), c.path("way")))
	c.requireFails(syscall.ELOOP, func() error { return c.m.UnmountTree(c.Context(), c.path("way/target")) })
}

// unmountTreeBusy: mounts that were unmounted before the failure stay unmounted.
func (c *contract) unmountTreeBusy() {
	target := c.makeDir("target")
	inner, deep := c.mountNested(target)
	free := c.holdBusy(inner)
	err := c.m.UnmountTree(c.Context(), target)
	free()
	require.ErrorIs(c, err, mount.ErrBusy)
	require.ErrorContains(c, err, inner, "the error names the busy mount")
	c.requireError(err, opUnmountTree, target)
	c.requireMountPoint(target)
	c.requireMountPoint(inner)
	c.requireNoMountPoint(deep)
	require.NoError(c, c.m.UnmountTree(c.Context(), target))
	c.requireNoMountPoint(target)
}

// holdBusy keeps a mount in use until it is freed.
func (c *contract) holdBusy(target string) (free func()) {
	c.Helper()
	if c.fake != nil {
		c.fake.FailUnmount(target, syscall.EBUSY, 0)
		return c.fake.ClearFaults
	}
	f, err := os.Open(target)
	require.NoError(c, err)
	return func() { require.NoError(c, f.Close()) }
}

// unmountTreeRetrying retries while another process inspects the mount.
func (c *contract) unmountTreeRetrying(target string) {
	c.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		err := c.m.UnmountTree(c.Context(), target)
		if err == nil {
			return
		}
		require.ErrorIs(c, err, mount.ErrBusy)
		require.True(c, time.Now().Before(deadline), "the mount stays busy")
	}
}

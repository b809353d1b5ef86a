package contract

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// bind: a bind mount shows the files of its source, and Unmount keeps them.
func (c *contract) bind() {
	source, target := c.makeDir("source"), c.makeDir("target")
	c.requireNoMountPoint(target)
	c.mount(mount.Request{Source: source, Target: target})
	c.requireMountPoint(target)
	c.requireNoMountPoint(source)
	require.NoError(c, c.writeFile(filepath.Join(target, "file")))
	c.requireExists(filepath.Join(source, "file"))
	require.Len(c, c.entriesAt(target), 1)
	require.Zero(c, c.entriesAt(target)[0].Flags&mount.ReadOnly)

	c.unmount(target)
	c.requireNoMountPoint(target)
	c.requireExists(filepath.Join(source, "file"))
}

// bindFile: a file is bound to a file, read-only if requested.
func (c *contract) bindFile() {
	source, target := c.path("source"), c.path("target")
	require.NoError(c, os.WriteFile(source, nil, 0o644))
	require.NoError(c, os.WriteFile(target, nil, 0o644))
	c.Cleanup(func() { c.unmountAll(target) })
	c.mount(mount.Request{Source: source, Target: target, Options: []string{"ro"}})
	c.requireMountPoint(target)
	require.ErrorIs(c, c.writeFile(target), syscall.EROFS)
	require.NoError(c, c.writeFile(source))
	c.unmount(target)
	c.requireNoMountPoint(target)
}

// bindDevice: a device file is not mounted where opening it would fail.
func (c *contract) bindDevice() {
	const device = "/dev/null"
	if info, err := os.Lstat(device); err != nil || info.Mode()&fs.ModeDevice == 0 {
		c.Skip("missing device file ", device)
	}
	target := c.path("target")
	require.NoError(c, os.WriteFile(target, nil, 0o644))
	c.Cleanup(func() { c.unmountAll(target) })
	req := mount.Request{Source: device, Target: target}
	c.requireRefused("Source", req)
	require.ErrorContains(c, c.m.Mount(c.Context(), req), "Allow.Dev or Request.DeviceFile")
	nodev := req
	nodev.Options = []string{"nodev"}
	c.mount(nodev) // as requested
	c.unmount(target)
	allowed := req
	allowed.DeviceFile = true
	for m, req := range map[mount.Interface]mount.Request{c.m: allowed, c.new(mount.Config{Allow: mount.Allow{Dev: true}}): req} {
		for range 2 { // the second call changes nothing
			require.NoError(c, m.Mount(c.Context(), req))
			c.requireReadable(target)
		}
		c.requireRefused("Source", mount.Request{Source: device, Target: target}) // also if the device is mounted already
		c.unmount(target)
	}
	c.requireNoMountPoint(target)
}

// requireReadable requires that a device file on the kernel can be opened.
func (c *contract) requireReadable(path string) {
	c.Helper()
	if c.fake == nil {
		_, err := os.ReadFile(path)
		require.NoError(c, err)
	}
}

// deviceFileAlone: DeviceFile permits a device file as the source, and no device files of a file system.
func (c *contract) deviceFileAlone() {
	source, target := c.makeDir("source"), c.makeDir("target")
	c.mount(mount.Request{Source: source, Target: target, DeviceFile: true})
	require.NotZero(c, c.entriesAt(target)[0].Flags&mount.NoDev)
	c.unmount(target)
	c.requireRefused("DeviceFile", mount.Request{Source: "x", FSType: "tmpfs", Target: target, DeviceFile: true})
	c.requireRefused("DeviceFile", mount.Request{Target: target, Remount: true, DeviceFile: true})
}

// readOnly: a read-only mount refuses writes, and its source stays writable.
func (c *contract) readOnly() {
	source, target := c.makeDir("source"), c.makeDir("target")
	c.mount(mount.Request{Source: source, Target: target, Options: []string{"ro"}})
	require.ErrorIs(c, c.writeFile(filepath.Join(target, "file")), syscall.EROFS)
	require.NotZero(c, c.entriesAt(target)[0].Flags&mount.ReadOnly)
	require.NoError(c, c.writeFile(filepath.Join(source, "file")), "the source stays writable")

	fs := c.makeDir("tmpfs")
	c.mount(mount.Request{Source: "tmpfs", Target: fs, FSType: "tmpfs", Options: []string{"ro"}})
	require.NotZero(c, c.entriesAt(fs)[0].Flags&mount.ReadOnly)
}

// noLinks: a symbolic link at or above the source or the target is ELOOP.
func (c *contract) noLinks() {
	source, target := c.makeDir("real/source"), c.makeDir("real/target")
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
		c.requireFails(syscall.ELOOP, func() error { return c.m.Mount(c.Context(), req) })
	}
	c.mount(mount.Request{Source: source, Target: target})
	c.requireFails(syscall.ELOOP, func() error { return c.m.Unmount(c.Context(), c.path("way/target")) })
}

// missing: the error of a missing source, target or path wraps fs.ErrNotExist and names the
// path.
func (c *contract) missing() {
	dir, none := c.makeDir("dir"), c.path("none")
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
		err := c.requireFails(fs.ErrNotExist, call)
		require.ErrorIs(c, err, syscall.ENOENT)
		var mountErr *mount.Error
		require.ErrorAs(c, err, &mountErr)
		require.ErrorContains(c, err, none, "the error names the path")
	}
}

// directoryOrFile: a mount of a directory on a file, or the reverse, is ENOTDIR.
func (c *contract) directoryOrFile() {
	dir, file := c.makeDir("dir"), c.path("file")
	require.NoError(c, os.WriteFile(file, nil, 0o644))
	c.requireFails(syscall.ENOTDIR, func() error { return c.m.Mount(c.Context(), mount.Request{Source: dir, Target: file}) })
	c.requireFails(syscall.ENOTDIR, func() error { return c.m.Mount(c.Context(), mount.Request{Source: file, Target: dir}) })
	c.requireFails(syscall.ENOTDIR, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: "x", Target: file, FSType: "tmpfs"})
	})
	c.requireNoMountPoint(file)
}

// strangeNames: paths may contain the separators and escapes of the mount table.
func (c *contract) strangeNames() {
	for _, name := range []string{
		" ", "a b", "tab\there", "new\nline", `back\slash`, `octal\040`, "#hash", "-", "ünïcode",
		"\xff\xfe", "a,b=c", "ro - tmpfs x rw", "..data", "...", "'\"$(id)",
	} {
		source, target := c.makeDir("source/"+name), c.makeDir("target/"+name)
		again := c.makeDir("again/" + name)
		c.mount(mount.Request{Source: source, Target: target})
		c.mount(mount.Request{Source: source, Target: again})
		c.requireMountPoint(target)
		c.requireMountPoint(again)
		refs, err := c.m.MountRefs(c.Context(), target)
		require.NoError(c, err)
		require.Equal(c, []string{again}, refs)
		require.Equal(c, filepath.Base(source), filepath.Base(c.entriesAt(target)[0].Root))
		c.unmount(target)
		c.unmount(again)
		c.requireNoMountPoint(target)
	}
}

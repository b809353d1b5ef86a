package contract

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// openFile opens a directory or file until the test ends.
func (c *contract) openFile(name string) *os.File {
	c.Helper()
	file, err := os.Open(name)
	require.NoError(c, err)
	c.Cleanup(func() { _ = file.Close() })
	return file
}

// sourceFile: an open directory or file is a source like its path. Closing it does not
// affect the mount.
func (c *contract) sourceFile() {
	source, target := c.makeDir("source"), c.makeDir("target")
	open := c.openFile(source)
	req := mount.Request{SourceFile: open, Target: target}
	for range 2 {
		c.mount(req)
		require.Len(c, c.entriesAt(target), 1)
	}
	require.NoError(c, c.writeFile(filepath.Join(target, "file")))
	c.requireExists(filepath.Join(source, "file"))
	c.requireFails(mount.ErrMounted, func() error {
		return c.m.Mount(c.Context(), mount.Request{SourceFile: c.openFile(c.makeDir("other")), Target: target})
	})
	c.mount(mount.Request{Source: source, Target: target}) // the path of the same directory
	c.unmount(target)

	req.Options = []string{"ro"}
	c.mount(req)
	require.NoError(c, open.Close())
	require.ErrorIs(c, c.writeFile(filepath.Join(target, "file")), syscall.EROFS)
	require.NoError(c, c.writeFile(filepath.Join(source, "file")))
	c.unmount(target)

	file, onFile := filepath.Join(source, "file"), c.path("onfile")
	require.NoError(c, os.WriteFile(onFile, nil, 0o644))
	c.Cleanup(func() { c.unmountAll(onFile) })
	c.mount(mount.Request{SourceFile: c.openFile(file), Target: onFile})
	c.requireMountPoint(onFile)
	for from, to := range map[string]string{source: onFile + "2", file: target} {
		require.NoError(c, os.WriteFile(onFile+"2", nil, 0o644))
		c.requireFails(syscall.ENOTDIR, func() error {
			return c.m.Mount(c.Context(), mount.Request{SourceFile: c.openFile(from), Target: to})
		})
	}
}

// sourceFileIsResolved: the open file is mounted, wherever it has been moved and whatever
// file has replaced it.
func (c *contract) sourceFileIsResolved() {
	source, other, target := c.makeDir("source"), c.makeDir("other"), c.makeDir("target")
	open := c.openFile(source)
	require.NoError(c, os.Rename(source, c.path("moved")))
	require.NoError(c, os.Symlink(other, source))
	c.mount(mount.Request{Source: source, SourceFile: open, Target: target})
	require.NoError(c, c.writeFile(filepath.Join(target, "file")))
	c.requireExists(c.path("moved/file"))
	require.NoFileExists(c, filepath.Join(other, "file"))
	c.unmount(target)

	c.mount(mount.Request{Source: "tmpfs", Target: c.makeDir("moved/inside"), FSType: "tmpfs"})
	c.requireFails(mount.ErrSubmounts, func() error {
		return c.m.Mount(c.Context(), mount.Request{SourceFile: open, Target: target})
	})
	c.mount(mount.Request{SourceFile: open, Target: target, Submounts: mount.HideSubmounts})
}

// badSourceFile: a closed SourceFile is os.ErrClosed, and one outside of bind mounts an
// InputError.
func (c *contract) badSourceFile() {
	source, target := c.makeDir("source"), c.makeDir("target")
	open := c.openFile(source)
	c.requireRefused("SourceFile", mount.Request{SourceFile: open, Target: target, FSType: "tmpfs"})
	c.requireRefused("Source", mount.Request{SourceFile: open, Source: "relative", Target: target})
	c.requireRefused("Secrets[0]", mount.Request{SourceFile: open, Target: target, Secrets: []mount.Secret{mount.NewSecret("a=b")}})
	require.NoError(c, open.Close())
	c.requireFails(os.ErrClosed, func() error {
		return c.m.Mount(c.Context(), mount.Request{SourceFile: open, Target: target})
	})
	c.mount(mount.Request{Source: source, Target: target})
	c.requireRefused("SourceFile", mount.Request{SourceFile: c.openFile(source), Target: target, Remount: true})
}

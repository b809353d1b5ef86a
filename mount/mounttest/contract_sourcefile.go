package mounttest

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

// open is of a directory or file, until the test ends.
func (c *contract) open(name string) *os.File {
	c.Helper()
	file, err := os.Open(name)
	require.NoError(c, err)
	c.Cleanup(func() { _ = file.Close() })
	return file
}

func (c *contract) sourceFile() {
	source, target := c.mkdir("source"), c.mkdir("target")
	open := c.open(source)
	req := mount.Request{SourceFile: open, Target: target}
	for range 2 {
		c.mount(req)
		require.Len(c, c.at(target), 1)
	}
	require.NoError(c, c.write(filepath.Join(target, "file")))
	c.exists(filepath.Join(source, "file"))
	c.fails(mount.ErrMounted, func() error {
		return c.m.Mount(c.Context(), mount.Request{SourceFile: c.open(c.mkdir("other")), Target: target})
	})
	c.mount(mount.Request{Source: source, Target: target}) // it is the same
	c.unmount(target)

	req.Options = []string{"ro"}
	c.mount(req)
	require.NoError(c, open.Close())
	require.ErrorIs(c, c.write(filepath.Join(target, "file")), syscall.EROFS)
	require.NoError(c, c.write(filepath.Join(source, "file")))
	c.unmount(target)

	file, onFile := filepath.Join(source, "file"), c.path("onfile")
	require.NoError(c, os.WriteFile(onFile, nil, 0o644))
	c.Cleanup(func() { c.unmountAll(onFile) })
	c.mount(mount.Request{SourceFile: c.open(file), Target: onFile})
	c.isMountPoint(onFile, true)
	for from, to := range map[string]string{source: onFile + "2", file: target} {
		require.NoError(c, os.WriteFile(onFile+"2", nil, 0o644))
		c.fails(syscall.ENOTDIR, func() error {
			return c.m.Mount(c.Context(), mount.Request{SourceFile: c.open(from), Target: to})
		})
	}
}

// sourceFileIsResolved: what has been opened is what is mounted, wherever it has got to
// and whatever is in its place.
func (c *contract) sourceFileIsResolved() {
	source, other, target := c.mkdir("source"), c.mkdir("other"), c.mkdir("target")
	open := c.open(source)
	require.NoError(c, os.Rename(source, c.path("moved")))
	require.NoError(c, os.Symlink(other, source))
	c.mount(mount.Request{Source: source, SourceFile: open, Target: target})
	require.NoError(c, c.write(filepath.Join(target, "file")))
	c.exists(c.path("moved/file"))
	require.NoFileExists(c, filepath.Join(other, "file"))
	c.unmount(target)

	c.mount(mount.Request{Source: "tmpfs", Target: c.mkdir("moved/inside"), FSType: "tmpfs"})
	c.fails(mount.ErrSubmounts, func() error {
		return c.m.Mount(c.Context(), mount.Request{SourceFile: open, Target: target})
	})
	c.mount(mount.Request{SourceFile: open, Target: target, Submounts: mount.HideSubmounts})
}

func (c *contract) badSourceFile() {
	source, target := c.mkdir("source"), c.mkdir("target")
	open := c.open(source)
	c.refuses("SourceFile", mount.Request{SourceFile: open, Target: target, FSType: "tmpfs"})
	c.refuses("Source", mount.Request{SourceFile: open, Source: "relative", Target: target})
	c.refuses("Secrets[0]", mount.Request{SourceFile: open, Target: target, Secrets: []mount.Secret{mount.NewSecret("a=b")}})
	require.NoError(c, open.Close())
	c.fails(os.ErrClosed, func() error {
		return c.m.Mount(c.Context(), mount.Request{SourceFile: open, Target: target})
	})
	c.mount(mount.Request{Source: source, Target: target})
	c.refuses("SourceFile", mount.Request{SourceFile: c.open(source), Target: target, Remount: true})
}

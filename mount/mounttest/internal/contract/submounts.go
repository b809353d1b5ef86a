package contract

import (
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// sourceWithSubmounts returns a source with submounts at below and below/deep, and with a mount
// beside the source.
func (c *contract) sourceWithSubmounts() (source string) {
	c.Helper()
	c.unlockedSource()
	inner, deeper := c.makeDir("unlocked/inner"), c.makeDir("unlocked/deeper")
	c.makeDir("unlocked/inner/deep")
	source = c.makeDir("unlocked/source/a")
	below, beside := c.makeDir("unlocked/source/a/below"), c.makeDir("unlocked/source/ab")
	c.mount(mount.Request{Source: inner, Target: below})
	c.mount(mount.Request{Source: deeper, Target: filepath.Join(below, "deep")})
	c.mount(mount.Request{Source: deeper, Target: beside})
	return source
}

// submountsRefused: a bind mount of a source with submounts is ErrSubmounts by default.
func (c *contract) submountsRefused() {
	source, target := c.sourceWithSubmounts(), c.makeDir("target")
	below := filepath.Join(source, "below")
	req := mount.Request{Source: source, Target: target}
	err := c.requireFails(mount.ErrSubmounts, func() error { return c.m.Mount(c.Context(), req) })
	require.ErrorContains(c, err, below, "the error names the submount")
	c.requireNoMountPoint(target)

	require.NoError(c, c.m.UnmountTree(c.Context(), below))
	c.mount(req) // a mount beside the source is not below it
	c.mount(mount.Request{Source: c.path("unlocked/inner"), Target: below})
	c.mount(req) // Mount is idempotent
	require.Len(c, c.entriesAt(target), 1)
}

// submountsHidden: HideSubmounts binds the source without its submounts.
func (c *contract) submountsHidden() {
	source, target := c.sourceWithSubmounts(), c.makeDir("target")
	before := c.table()
	c.mount(mount.Request{Source: source, Target: target, Submounts: mount.HideSubmounts})
	c.requireMountPoint(target)
	c.requireNoMountPoint(filepath.Join(target, "below"))
	require.NoError(c, c.writeFile(filepath.Join(target, "below/file")))
	require.Equal(c, before, c.tableWithout(target), "the source has changed")

	c.unmount(target)
	require.NoError(c, c.m.UnmountTree(c.Context(), filepath.Join(source, "below")))
	c.requireExists(filepath.Join(source, "below/file")) // and not the file of the mount there
}

// tableWithout returns the mount table without the mounts at and below a path.
func (c *contract) tableWithout(p string) mount.Table {
	c.Helper()
	var table mount.Table
	for _, info := range c.table() {
		if !isBelow(p, info.Mountpoint) {
			table = append(table, info)
		}
	}
	return table
}

// submountsIncluded: IncludeSubmounts binds the submounts, too, with the flags of the request.
func (c *contract) submountsIncluded() {
	source, target := c.sourceWithSubmounts(), c.makeDir("target")
	before := c.table()
	req := mount.Request{Source: source, Target: target, Options: []string{"ro", "noexec"}, Submounts: mount.IncludeSubmounts}
	for range 2 {
		c.mount(req)
		require.Len(c, c.table(), len(before)+3)
	}
	for _, name := range []string{"", "below", "below/deep"} {
		at := filepath.Join(target, name)
		const want = mount.ReadOnly | mount.NoExec | mount.NoSUID | mount.NoDev
		require.Equal(c, want.String(), c.topEntry(at).Flags.String(), at)
		require.Empty(c, c.topEntry(at).Tags, at)
		require.ErrorIs(c, c.writeFile(filepath.Join(at, "file")), syscall.EROFS, at)
		require.NoError(c, c.writeFile(filepath.Join(source, name, "file")), "the source stays writable")
	}
	c.requireRefs(filepath.Join(target, "below"), filepath.Join(source, "below"))
	require.Equal(c, before, c.tableWithout(target), "the source has changed")

	c.requireFails(mount.ErrBusy, func() error { return c.m.Unmount(c.Context(), target) })
	require.NoError(c, c.m.UnmountTree(c.Context(), target))
	require.Equal(c, before, c.table())

	for _, submounts := range []mount.Submounts{mount.HideSubmounts, mount.IncludeSubmounts} {
		c.mount(mount.Request{Source: c.path("unlocked/inner/deep"), Target: target, Submounts: submounts})
		require.Len(c, c.table(), len(before)+1, "the source has no submounts")
		c.unmount(target)
	}
}

// submountsUnderOthers: a hidden mount gets the flags, too, since it may become visible.
func (c *contract) submountsUnderOthers() {
	source, target := c.sourceWithSubmounts(), c.makeDir("target")
	below := filepath.Join(source, "below")
	c.mount(mount.Request{Source: c.path("unlocked/deeper"), Target: below, Options: []string{"noexec"}, Stack: true})
	c.mount(mount.Request{Source: source, Target: target, Options: []string{"ro"}, Submounts: mount.IncludeSubmounts})
	below = filepath.Join(target, "below")
	const want = mount.ReadOnly | mount.NoSUID | mount.NoDev
	require.Equal(c, (want | mount.NoExec).String(), c.topEntry(below).Flags.String())
	c.unmount(below)
	for _, at := range []string{below, filepath.Join(below, "deep")} {
		require.Equal(c, want.String(), c.topEntry(at).Flags.String())
		require.ErrorIs(c, c.writeFile(filepath.Join(at, "file")), syscall.EROFS)
	}
}

// submountsReadOnlyAtOnce: a goroutine tries to write to a submount all the time. Before
// the mount the target has no such directory.
func (c *contract) submountsReadOnlyAtOnce() {
	source, target := c.sourceWithSubmounts(), c.makeDir("target")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if c.writeFile(filepath.Join(target, "below/deep/file")) == nil {
				c.Error("a read-only mount was writable for a moment")
				return
			}
		}
	})
	for range 20 {
		c.mount(mount.Request{Source: source, Target: target, Options: []string{"ro"}, Submounts: mount.IncludeSubmounts})
		c.unmountTreeRetrying(target)
	}
}

// isBelow reports whether p is dir or below it.
func isBelow(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

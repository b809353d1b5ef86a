package mounttest

import (
	"path/filepath"
	"sync"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

// sourceWithSubmounts returns a source, with mounts at below and below/deep, and
// one beside it.
func (c *contract) sourceWithSubmounts() (source string) {
	c.Helper()
	c.unlocked()
	inner, deeper := c.mkdir("unlocked/inner"), c.mkdir("unlocked/deeper")
	c.mkdir("unlocked/inner/deep")
	source = c.mkdir("unlocked/source/a")
	below, beside := c.mkdir("unlocked/source/a/below"), c.mkdir("unlocked/source/ab")
	c.mount(mount.Request{Source: inner, Target: below})
	c.mount(mount.Request{Source: deeper, Target: filepath.Join(below, "deep")})
	c.mount(mount.Request{Source: deeper, Target: beside})
	return source
}

func (c *contract) submountsRefused() {
	source, target := c.sourceWithSubmounts(), c.mkdir("target")
	below := filepath.Join(source, "below")
	req := mount.Request{Source: source, Target: target}
	err := c.fails(mount.ErrSubmounts, func() error { return c.m.Mount(c.Context(), req) })
	require.ErrorContains(c, err, below, "the message names what is mounted there")
	c.isMountPoint(target, false)

	require.NoError(c, c.m.UnmountTree(c.Context(), below))
	c.mount(req) // what is beside the source is not below it
	c.mount(mount.Request{Source: c.path("unlocked/inner"), Target: below})
	c.mount(req) // it is mounted already
	require.Len(c, c.at(target), 1)
}

func (c *contract) submountsHidden() {
	source, target := c.sourceWithSubmounts(), c.mkdir("target")
	before := c.table()
	c.mount(mount.Request{Source: source, Target: target, Submounts: mount.HideSubmounts})
	c.isMountPoint(target, true)
	c.isMountPoint(filepath.Join(target, "below"), false)
	require.NoError(c, c.write(filepath.Join(target, "below/file")))
	require.Equal(c, before, c.without(target), "the source has changed")

	c.unmount(target)
	require.NoError(c, c.m.UnmountTree(c.Context(), filepath.Join(source, "below")))
	c.exists(filepath.Join(source, "below/file")) // and not in what was mounted there
}

// without returns the mount table without the mounts at and below a path.
func (c *contract) without(p string) mount.Table {
	c.Helper()
	var table mount.Table
	for _, info := range c.table() {
		if !isBelow(p, info.Mountpoint) {
			table = append(table, info)
		}
	}
	return table
}

func (c *contract) submountsIncluded() {
	source, target := c.sourceWithSubmounts(), c.mkdir("target")
	before := c.table()
	req := mount.Request{Source: source, Target: target, Options: []string{"ro", "noexec"}, Submounts: mount.IncludeSubmounts}
	for range 2 {
		c.mount(req)
		require.Len(c, c.table(), len(before)+3)
	}
	for _, name := range []string{"", "below", "below/deep"} {
		at := filepath.Join(target, name)
		const want = mount.ReadOnly | mount.NoExec | mount.NoSUID | mount.NoDev
		require.Equal(c, want.String(), c.top(at).Flags.String(), at)
		require.Empty(c, c.top(at).Tags, at)
		require.ErrorIs(c, c.write(filepath.Join(at, "file")), syscall.EROFS, at)
		require.NoError(c, c.write(filepath.Join(source, name, "file")), "the source stays writable")
	}
	c.refsAre(filepath.Join(target, "below"), filepath.Join(source, "below"))
	require.Equal(c, before, c.without(target), "the source has changed")

	c.fails(mount.ErrBusy, func() error { return c.m.Unmount(c.Context(), target) })
	require.NoError(c, c.m.UnmountTree(c.Context(), target))
	require.Equal(c, before, c.table())

	for _, submounts := range []mount.Submounts{mount.HideSubmounts, mount.IncludeSubmounts} {
		c.mount(mount.Request{Source: c.path("unlocked/inner/deep"), Target: target, Submounts: submounts})
		require.Len(c, c.table(), len(before)+1, "there are none")
		c.unmount(target)
	}
}

// submountsUnderOthers: one that another hides gets its flags, too; it may come to
// light.
func (c *contract) submountsUnderOthers() {
	source, target := c.sourceWithSubmounts(), c.mkdir("target")
	below := filepath.Join(source, "below")
	c.mount(mount.Request{Source: c.path("unlocked/deeper"), Target: below, Options: []string{"noexec"}, Stack: true})
	c.mount(mount.Request{Source: source, Target: target, Options: []string{"ro"}, Submounts: mount.IncludeSubmounts})
	below = filepath.Join(target, "below")
	const want = mount.ReadOnly | mount.NoSUID | mount.NoDev
	require.Equal(c, (want | mount.NoExec).String(), c.top(below).Flags.String())
	c.unmount(below)
	for _, at := range []string{below, filepath.Join(below, "deep")} {
		require.Equal(c, want.String(), c.top(at).Flags.String())
		require.ErrorIs(c, c.write(filepath.Join(at, "file")), syscall.EROFS)
	}
}

// submountsReadOnlyAtOnce: somebody tries to write to a submount all the time. A
// target that nothing is mounted on has no such directory.
func (c *contract) submountsReadOnlyAtOnce() {
	source, target := c.sourceWithSubmounts(), c.mkdir("target")
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
			if c.write(filepath.Join(target, "below/deep/file")) == nil {
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

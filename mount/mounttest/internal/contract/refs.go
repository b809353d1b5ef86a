package contract

import (
	"path/filepath"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// refs: MountRefs returns the other mount points of the directory at a path, sorted, for binds
// of binds and of subdirectories, too.
func (c *contract) refs() {
	source, inner := c.makeDir("source"), c.makeDir("source/inner")
	a, b, sub, subsub := c.makeDir("a"), c.makeDir("b"), c.makeDir("sub"), c.makeDir("subsub")
	tmpfs := c.makeDir("tmpfs")
	c.mount(mount.Request{Source: source, Target: a})
	c.mount(mount.Request{Source: a, Target: b, Options: []string{"ro"}})
	c.mount(mount.Request{Source: inner, Target: sub})
	c.mount(mount.Request{Source: sub, Target: subsub})
	c.mount(mount.Request{Source: "tmpfs", Target: tmpfs, FSType: "tmpfs"})
	for path, want := range map[string][]string{
		source:                    {a, b},
		a:                         {b},
		b:                         {a},
		inner:                     {sub, subsub},
		filepath.Join(b, "inner"): {sub, subsub},
		sub:                       {subsub},
		tmpfs:                     nil,
		c.dir:                     nil,
	} {
		refs, err := c.m.MountRefs(c.Context(), path)
		require.NoError(c, err)
		require.ElementsMatch(c, want, refs, path)
		require.IsIncreasing(c, append([]string{""}, refs...))
	}
}

// refsOfHidden: MountRefs omits mounts that are hidden at their mount point or below another
// mount.
func (c *contract) refsOfHidden() {
	source, a, b, over := c.makeDir("source"), c.makeDir("a"), c.makeDir("top/b"), c.makeDir("over")
	top := c.path("top")
	c.Cleanup(func() { c.unmountAll(top) })
	c.mount(mount.Request{Source: source, Target: a})
	c.mount(mount.Request{Source: source, Target: b})
	// A mount on one, and a mount above the other.
	c.mount(mount.Request{Source: over, Target: a, Stack: true})
	c.requireRefs(source, b)
	c.mount(mount.Request{Source: over, Target: top})
	c.requireRefs(source)
	c.requireRefs(a, top)
	c.unmount(a)
	c.requireRefs(a)
	c.unmount(top)
	c.requireRefs(source, a, b)
}

func (c *contract) requireRefs(path string, want ...string) {
	c.Helper()
	refs, err := c.m.MountRefs(c.Context(), path)
	require.NoError(c, err)
	require.ElementsMatch(c, want, refs)
}

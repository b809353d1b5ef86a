package mounttest

import (
	"path/filepath"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func (c *contract) refs() {
	source, inner := c.mkdir("source"), c.mkdir("source/inner")
	a, b, sub, subsub := c.mkdir("a"), c.mkdir("b"), c.mkdir("sub"), c.mkdir("subsub")
	tmpfs := c.mkdir("tmpfs")
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

func (c *contract) refsOfHidden() {
	source, a, b, over := c.mkdir("source"), c.mkdir("a"), c.mkdir("top/b"), c.mkdir("over")
	top := c.path("top")
	c.Cleanup(func() { c.unmountAll(top) })
	c.mount(mount.Request{Source: source, Target: a})
	c.mount(mount.Request{Source: source, Target: b})
	// Something over the one, something above the other.
	c.mount(mount.Request{Source: over, Target: a, Stack: true})
	c.refsAre(source, b)
	c.mount(mount.Request{Source: over, Target: top})
	c.refsAre(source)
	c.refsAre(a, top)
	c.unmount(a)
	c.refsAre(a)
	c.unmount(top)
	c.refsAre(source, a, b)
}

func (c *contract) refsAre(path string, want ...string) {
	c.Helper()
	refs, err := c.m.MountRefs(c.Context(), path)
	require.NoError(c, err)
	require.ElementsMatch(c, want, refs)
}

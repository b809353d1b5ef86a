package contract

import (
	"path/filepath"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// mountsFrom: MountsFrom returns the mounts of a source in the order of the mount table, with
// bind mounts and hidden ones.
func (c *contract) mountsFrom() {
	// Sources that no other mount has.
	export, other := "server:"+c.path("export"), "a b "+c.path("other")
	a, b, bind, o := c.makeDir("a"), c.makeDir("b"), c.makeDir("bind"), c.makeDir("o")
	c.requireMountsFrom(export)
	c.mount(mount.Request{Source: export, Target: a, FSType: "tmpfs"})
	c.mount(mount.Request{Source: other, Target: o, FSType: "tmpfs"})
	c.mount(mount.Request{Source: export, Target: b, FSType: "tmpfs", Options: []string{"ro"}})
	c.mount(mount.Request{Source: a, Target: bind})
	c.requireMountsFrom(export, a, b, bind)
	c.requireMountsFrom(other, o)
	c.requireMountsFrom(filepath.Base(export))

	// Hidden mounts are included.
	c.mount(mount.Request{Source: other, Target: a, FSType: "tmpfs", Stack: true})
	c.requireMountsFrom(export, a, b, bind)
	c.requireMountsFrom(other, a, o)
	c.unmount(a)
	c.unmount(a)
	c.requireMountsFrom(export, b, bind)

	for _, source := range []string{"", "a\x00b"} {
		mounts, err := c.m.MountsFrom(c.Context(), source)
		require.Empty(c, mounts)
		c.requireInputError(err, "Source", source)
	}
}

// requireMountsFrom requires the mounts of a source to be those at the targets.
func (c *contract) requireMountsFrom(source string, targets ...string) {
	c.Helper()
	mounts, err := c.m.MountsFrom(c.Context(), source)
	require.NoError(c, err)
	var found []string
	var last int
	table := c.table()
	for _, info := range mounts {
		found = append(found, info.Mountpoint)
		at := indexOf(table, info.ID)
		require.Equal(c, table[at], info)
		require.GreaterOrEqual(c, at, last, "the order is the kernel's")
		last = at
	}
	require.ElementsMatch(c, targets, found)
}

func indexOf(table mount.Table, id int) int {
	for i, info := range table {
		if info.ID == id {
			return i
		}
	}
	return 0
}

package mounttest

import (
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

func (c *contract) mountsFrom() {
	// Words that nobody else's mounts are made from.
	export, other := "server:"+c.path("export"), "a b "+c.path("other")
	a, b, bind, o := c.mkdir("a"), c.mkdir("b"), c.mkdir("bind"), c.mkdir("o")
	c.isFrom(export)
	c.mount(mount.Request{Source: export, Target: a, FSType: "tmpfs"})
	c.mount(mount.Request{Source: other, Target: o, FSType: "tmpfs"})
	c.mount(mount.Request{Source: export, Target: b, FSType: "tmpfs", Options: []string{"ro"}})
	c.mount(mount.Request{Source: a, Target: bind})
	c.isFrom(export, a, b, bind)
	c.isFrom(other, o)
	c.isFrom(filepath.Base(export))

	// What is hidden is there, too.
	c.mount(mount.Request{Source: other, Target: a, FSType: "tmpfs", Stack: true})
	c.isFrom(export, a, b, bind)
	c.isFrom(other, a, o)
	c.unmount(a)
	c.unmount(a)
	c.isFrom(export, b, bind)

	for _, source := range []string{"", "a\x00b"} {
		mounts, err := c.m.MountsFrom(c.Context(), source)
		require.Empty(c, mounts)
		c.isInput(err, "Source", source)
	}
}

// isFrom makes sure that the mounts of a source are those at the targets.
func (c *contract) isFrom(source string, targets ...string) {
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

package contract

import (
	"errors"
	"slices"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// idMap: the mount table marks a mount with an ID map as "idmapped". Whether IDs can be
// mapped depends on the kernel, the file system and the user namespace.
func (c *contract) idMap() {
	source, target := c.unlockedSource(), c.makeDir("target")
	root := []mount.IDRange{{Count: 1}} // every user namespace can map root
	ids := mount.IDMap{UIDs: root, GIDs: root}
	for _, req := range []mount.Request{
		{Source: source, Target: target, Options: []string{"ro"}, IDMap: ids},
		{Source: "tmpfs", Target: target, FSType: "tmpfs", IDMap: ids},
	} {
		before := c.table()
		err := c.m.Mount(c.Context(), req)
		if c.fake == nil && errors.Is(err, errors.ErrUnsupported) {
			require.Equal(c, before, c.table())
			continue
		}
		require.NoError(c, err)
		require.True(c, slices.Contains(c.topEntry(target).Options, "idmapped"), "%+v", c.topEntry(target))
		c.mount(req)
		require.Len(c, c.entriesAt(target), 1, "Mount is idempotent")
		c.unmount(target)
	}
	c.idMapBind(mount.Request{Source: source, Target: target, IDMap: ids})
}

// idMapBind: a bind mount without an ID map differs from one with.
func (c *contract) idMapBind(mapped mount.Request) {
	plain := mapped
	plain.IDMap = mount.IDMap{}
	c.mount(plain)
	require.False(c, slices.Contains(c.topEntry(plain.Target).Options, "idmapped"))
	c.requireFails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), mapped) })
	c.unmount(plain.Target)
	if err := c.m.Mount(c.Context(), mapped); !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(c, err)
		c.requireFails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), plain) })
	}
}

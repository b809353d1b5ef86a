package mounttest

import (
	"errors"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

// idMap: a mount whose IDs are mapped says so. Whether they can be is for the
// kernel, the file system and the user namespace to say.
func (c *contract) idMap() {
	source, target := c.unlocked(), c.mkdir("target")
	root := []mount.IDRange{{Count: 1}} // what every user namespace can map
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
		require.True(c, slices.Contains(c.top(target).Options, "idmapped"), "%+v", c.top(target))
		c.mount(req)
		require.Len(c, c.at(target), 1, "it is idempotent")
		c.unmount(target)
	}
	c.idMapBind(mount.Request{Source: source, Target: target, IDMap: ids})
}

// idMapBind: owners as they are stored are something else than mapped ones.
func (c *contract) idMapBind(mapped mount.Request) {
	plain := mapped
	plain.IDMap = mount.IDMap{}
	c.mount(plain)
	require.False(c, slices.Contains(c.top(plain.Target).Options, "idmapped"))
	c.fails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), mapped) })
	c.unmount(plain.Target)
	if err := c.m.Mount(c.Context(), mapped); !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(c, err)
		c.fails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), plain) })
	}
}

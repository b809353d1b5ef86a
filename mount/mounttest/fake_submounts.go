package mounttest

import (
	"path"

	"github.com/volumekit/volumekit/mount"
)

// below returns the mounts that are attached below a spot in its mount, apart from
// those inside them.
func (k *kernel) below(at spot) []*mounted {
	if at.in == nil {
		return nil
	}
	var below []*mounted
	for _, m := range k.in(at.in) {
		if m.Mountpoint != at.path && isBelow(at.path, m.Mountpoint) {
			below = append(below, m)
		}
	}
	return below
}

// include returns clones of the mounts below a spot, for a clone of what is there.
func (k *kernel) include(from spot, top *mounted, req mount.Request, options mount.Options) []*mounted {
	var tree []*mounted
	ids := map[int]int{from.in.ID: top.ID}
	for pending := k.below(from); len(pending) > 0; {
		m := pending[0]
		pending = append(pending[1:], k.in(m)...)
		c := clone(m, req, options)
		c.ID = k.newID()
		ids[m.ID] = c.ID
		c.Parent = ids[m.Parent]
		c.Mountpoint = path.Join(top.Mountpoint, rest(from.path, m.Mountpoint))
		tree = append(tree, c)
	}
	return tree
}

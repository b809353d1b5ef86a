package mounttest

import (
	"path"

	"github.com/volumekit/volumekit/mount"
)

// submounts returns the mounts that are attached below a spot in its mount, without those inside
// them.
func (k *kernel) submounts(at spot) []*fakeMount {
	if at.in == nil {
		return nil
	}
	var below []*fakeMount
	for _, m := range k.children(at.in) {
		if m.Mountpoint != at.path && isBelow(at.path, m.Mountpoint) {
			below = append(below, m)
		}
	}
	return below
}

// cloneSubmounts returns clones of the mounts below a spot, for a clone of its mount.
func (k *kernel) cloneSubmounts(from spot, top *fakeMount, req mount.Request, options mount.Options) []*fakeMount {
	var tree []*fakeMount
	ids := map[int]int{from.in.ID: top.ID}
	for pending := k.submounts(from); len(pending) > 0; {
		m := pending[0]
		pending = append(pending[1:], k.children(m)...)
		c := clone(m, req, options)
		c.ID = k.newID()
		ids[m.ID] = c.ID
		c.Parent = ids[m.Parent]
		c.Mountpoint = path.Join(top.Mountpoint, relativePath(from.path, m.Mountpoint))
		tree = append(tree, c)
	}
	return tree
}

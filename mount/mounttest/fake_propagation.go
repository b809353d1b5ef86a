package mounttest

import (
	"fmt"
	"path"
	"slices"

	"github.com/volumekit/volumekit/mount"
)

// peerGroups are the groups of a mount, mount_namespaces(7): its peer group, and the
// group that it is a slave of. Zero: none.
type peerGroups struct{ group, master int }

// tags returns the optional fields of mountinfo.
func (p peerGroups) tags() []string {
	var tags []string
	if p.group != 0 {
		tags = append(tags, fmt.Sprintf("shared:%d", p.group))
	}
	if p.master != 0 {
		tags = append(tags, fmt.Sprintf("master:%d", p.master))
	}
	return tags
}

func (k *kernel) newGroup() int {
	k.groups++
	return k.groups
}

// setPropagation gives a new mount the requested propagation.
func (k *kernel) setPropagation(m *fakeMount, want mount.Propagation) {
	switch {
	case want == mount.PropagationPrivate:
		k.leaveGroup(m)
		m.peers.master = 0
	case want == mount.PropagationSlave:
		k.makeSlave(m)
	case m.peers.group == 0:
		m.peers.group = k.newGroup()
	}
}

// leaveGroup takes the mount out of its peer group. If the group is then empty, its slaves become
// slaves of the group's master.
func (k *kernel) leaveGroup(m *fakeMount) {
	group := m.peers.group
	m.peers.group = 0
	if group == 0 || len(k.members(group)) > 0 {
		return
	}
	for _, other := range k.mounts {
		if other.peers.master == group {
			other.peers.master = m.peers.master
		}
	}
}

// makeSlave makes the mount a slave of its peer group.
func (k *kernel) makeSlave(m *fakeMount) {
	group := m.peers.group
	k.leaveGroup(m)
	if group != 0 && len(k.members(group)) > 0 {
		m.peers.master = group
	}
}

// members returns the mounts of a peer group.
func (k *kernel) members(group int) []*fakeMount {
	var members []*fakeMount
	for _, m := range k.mounts {
		if m.peers.group == group {
			members = append(members, m)
		}
	}
	return members
}

// receivers returns the mounts that receive the mounts of a peer group: its members, the
// slaves of the group, their peers, and so on.
func (k *kernel) receivers(group int) []*fakeMount {
	if group == 0 {
		return nil
	}
	all := k.members(group)
	for _, slaves := range k.slaves(group) {
		all = append(all, slaves...)
		all = append(all, k.receiversBelow(slaves)...)
	}
	return all
}

func (k *kernel) receiversBelow(slaves []*fakeMount) []*fakeMount {
	group := slaves[0].peers.group
	return slices.DeleteFunc(k.receivers(group), func(m *fakeMount) bool { return m.peers.group == group })
}

// slaves returns the mounts that are slaves of a peer group, grouped by their own peer groups.
func (k *kernel) slaves(of int) [][]*fakeMount {
	var slaves [][]*fakeMount
	seen := map[int]bool{}
	for _, m := range k.mounts {
		switch group := m.peers.group; {
		case m.peers.master != of || seen[group]:
		case group == 0:
			slaves = append(slaves, []*fakeMount{m})
		default:
			seen[group] = true
			slaves = append(slaves, k.members(group))
		}
	}
	return slaves
}

// attach attaches a tree of mounts at p in a mount, and copies of it in the mounts that
// receive the mount's propagation.
func (k *kernel) attach(tree []*fakeMount, to *fakeMount, p string) {
	tree[0].Parent = to.ID
	if to.peers.group == 0 {
		k.mounts = append(k.mounts, tree...)
		return
	}
	for _, m := range tree { // as Linux: a mount in a shared mount becomes shared
		k.setPropagation(m, mount.PropagationShared)
	}
	// The tree does not propagate into itself, also if it shows the location.
	copies := k.copyToPeers(tree, to.peers.group, location{to, to.rootPath(p)})
	k.mounts = append(k.mounts, tree...)
	for _, copied := range copies {
		k.attachBeneath(copied)
	}
}

// A location is a path in a mount's file system.
type location struct {
	in   *fakeMount
	path string
}

// copyToPeers returns copies of a tree, to be mounted at a location, for the other mounts of a peer
// group and for its slaves.
func (k *kernel) copyToPeers(tree []*fakeMount, group int, at location) (copies [][]*fakeMount) {
	for _, m := range k.members(group) {
		if where, ok := at.pathIn(m); ok {
			copies = append(copies, k.copyTree(tree, m, where))
		}
	}
	for _, slaves := range k.slaves(group) {
		copies = append(copies, k.copyToSlaves(tree, slaves, at)...)
	}
	return copies
}

func (k *kernel) copyToSlaves(tree, slaves []*fakeMount, at location) (copies [][]*fakeMount) {
	group := slaves[0].peers.group
	isShared := group != 0
	slave := tree // the master of these copies, unless one of the slaves is
	for _, m := range slaves {
		where, ok := at.pathIn(m)
		switch {
		case !ok:
			continue
		case len(copies) == 0:
			slave = k.copyTree(tree, m, where)
			k.setMaster(slave, tree, isShared)
			copies = append(copies, slave)
		default:
			copies = append(copies, k.copyTree(slave, m, where))
		}
	}
	if !isShared {
		return copies
	}
	for _, slaves := range k.slaves(group) {
		copies = append(copies, k.copyToSlaves(slave, slaves, at)...)
	}
	return copies
}

// setMaster makes a copied tree the slave of another, and a peer group of its own if
// it is shared.
func (k *kernel) setMaster(slave, master []*fakeMount, isShared bool) {
	for i, m := range slave {
		m.peers = peerGroups{master: master[i].peers.group}
		if isShared {
			m.peers.group = k.newGroup()
		}
	}
}

// pathIn returns the path at which another mount shows the location.
func (p location) pathIn(m *fakeMount) (where string, ok bool) {
	if m == p.in || m.Deleted != p.in.Deleted {
		return "", false
	}
	return m.visiblePath(p.path)
}

// copyTree returns a copy of a tree for a path in another mount.
func (k *kernel) copyTree(tree []*fakeMount, to *fakeMount, where string) []*fakeMount {
	ids := map[int]int{tree[0].Parent: to.ID}
	var copied []*fakeMount
	for _, m := range tree {
		c := *m
		c.ID = k.newID()
		ids[m.ID] = c.ID
		c.Parent = ids[m.Parent]
		c.Mountpoint = path.Join(where, relativePath(tree[0].Mountpoint, m.Mountpoint))
		copied = append(copied, &c)
	}
	return copied
}

// attachBeneath attaches a copied tree under an existing mount at its mount point.
func (k *kernel) attachBeneath(tree []*fakeMount) {
	top := tree[0]
	covering := k.mountAt(top.Parent, top.Mountpoint)
	k.mounts = append(k.mounts, tree...)
	if covering != nil {
		covering.Parent = top.ID
	}
}

// detach removes a mount without children, and the mounts that it has propagated to.
func (k *kernel) detach(m *fakeMount) {
	gone := append(k.propagatedCopies(m), m)
	for _, m := range gone {
		k.reattachCover(m, gone)
	}
	k.mounts = slices.DeleteFunc(k.mounts, func(m *fakeMount) bool { return slices.Contains(gone, m) })
	for _, m := range gone {
		k.leaveGroup(m)
	}
}

// propagatedCopies returns the mounts at the location of m in the receivers of its parent's
// propagation, except those with children.
func (k *kernel) propagatedCopies(m *fakeMount) []*fakeMount {
	parent := k.mountByID(m.Parent)
	if parent == nil {
		return nil
	}
	at := location{parent, parent.rootPath(m.Mountpoint)}
	var copies []*fakeMount
	for _, r := range k.receivers(parent.peers.group) {
		where, ok := at.pathIn(r)
		if copied := k.mountAt(r.ID, where); ok && copied != nil && copied != m && !slices.Contains(copies, copied) {
			copies = append(copies, copied)
		}
	}
	for before := -1; before != len(copies); {
		before = len(copies)
		copies = slices.DeleteFunc(copies, func(copied *fakeMount) bool { return k.hasStayingChild(copied, copies) })
	}
	return copies
}

// hasStayingChild reports whether a mount has children that stay. A child that covers all of it
// does not count.
func (k *kernel) hasStayingChild(m *fakeMount, gone []*fakeMount) bool {
	return slices.ContainsFunc(k.children(m), func(in *fakeMount) bool {
		return in.Mountpoint != m.Mountpoint && k.staysMounted(in, gone)
	})
}

// staysMounted reports whether m, or a mount that covers m, stays mounted.
func (k *kernel) staysMounted(m *fakeMount, gone []*fakeMount) bool {
	if !slices.Contains(gone, m) {
		return true
	}
	covering := k.mountAt(m.ID, m.Mountpoint)
	return covering != nil && k.staysMounted(covering, gone)
}

// reattachCover attaches the mount that covers a removed mount at the parent of the removed mount.
func (k *kernel) reattachCover(m *fakeMount, gone []*fakeMount) {
	covering := k.mountAt(m.ID, m.Mountpoint)
	if covering == nil || slices.Contains(gone, covering) {
		return
	}
	parent := m
	for slices.Contains(gone, parent) {
		parent = k.mountByID(parent.Parent)
	}
	covering.Parent = parent.ID
}

func (k *kernel) mountByID(id int) *fakeMount {
	at := slices.IndexFunc(k.mounts, func(m *fakeMount) bool { return m.ID == id })
	if at < 0 {
		return nil
	}
	return k.mounts[at]
}

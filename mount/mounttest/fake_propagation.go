package mounttest

import (
	"fmt"
	"path"
	"slices"

	"github.com/volumekit/volumekit/mount"
)

// A peers is a mount's part in propagation, mount_namespaces(7): the peer group
// that it shares mounts with, and the one that it only gets them from. Zero: none.
type peers struct{ group, master int }

// tags returns what mountinfo says of it.
func (p peers) tags() []string {
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

// propagate makes the mount what a request asks for.
func (k *kernel) propagate(m *mounted, want mount.Propagation) {
	switch {
	case want == mount.PropagationPrivate:
		k.leave(m)
		m.peers.master = 0
	case want == mount.PropagationSlave:
		k.enslave(m)
	case m.peers.group == 0:
		m.peers.group = k.newGroup()
	}
}

// leave takes the mount out of its peer group. If it was the last, those that got
// mounts from the group get them from where the group did.
func (k *kernel) leave(m *mounted) {
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

// enslave lets the mount get mounts from its peers, and give none.
func (k *kernel) enslave(m *mounted) {
	group := m.peers.group
	k.leave(m)
	if group != 0 && len(k.members(group)) > 0 {
		m.peers.master = group
	}
}

// members returns the mounts of a peer group.
func (k *kernel) members(group int) []*mounted {
	var members []*mounted
	for _, m := range k.mounts {
		if m.peers.group == group {
			members = append(members, m)
		}
	}
	return members
}

// receivers returns the mounts in which appears what is mounted in one of the peer
// group: its members, the slaves of the group, their own peers, and so on.
func (k *kernel) receivers(group int) []*mounted {
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

func (k *kernel) receiversBelow(slaves []*mounted) []*mounted {
	group := slaves[0].peers.group
	return slices.DeleteFunc(k.receivers(group), func(m *mounted) bool { return m.peers.group == group })
}

// slaves returns the mounts that are slaves of a peer group: those that are peers
// of each other together, the others alone.
func (k *kernel) slaves(of int) [][]*mounted {
	var slaves [][]*mounted
	seen := map[int]bool{}
	for _, m := range k.mounts {
		switch group := m.peers.group; {
		case m.peers.master != of || seen[group]:
		case group == 0:
			slaves = append(slaves, []*mounted{m})
		default:
			seen[group] = true
			slaves = append(slaves, k.members(group))
		}
	}
	return slaves
}

// attach attaches a tree of mounts at p in a mount, and copies of it wherever that
// mount's propagation takes it.
func (k *kernel) attach(tree []*mounted, to *mounted, p string) {
	tree[0].Parent = to.ID
	if to.peers.group == 0 {
		k.mounts = append(k.mounts, tree...)
		return
	}
	for _, m := range tree { // as Linux: what is mounted in a shared mount is shared
		k.propagate(m, mount.PropagationShared)
	}
	// It does not appear in itself, also if it shows that place.
	copies := k.spread(tree, to.peers.group, place{to, to.inside(p)})
	k.mounts = append(k.mounts, tree...)
	for _, copied := range copies {
		k.slip(copied)
	}
}

// A place is one in a mount's file system.
type place struct {
	in     *mounted
	inside string
}

// spread returns copies of a tree that is to be mounted at a place for the other
// mounts of a peer group, and for those that get mounts from it.
func (k *kernel) spread(tree []*mounted, group int, at place) (copies [][]*mounted) {
	for _, m := range k.members(group) {
		if where, ok := at.seenIn(m); ok {
			copies = append(copies, k.copyTree(tree, m, where))
		}
	}
	for _, slaves := range k.slaves(group) {
		copies = append(copies, k.spreadToSlaves(tree, slaves, at)...)
	}
	return copies
}

func (k *kernel) spreadToSlaves(tree, slaves []*mounted, at place) (copies [][]*mounted) {
	group := slaves[0].peers.group
	slave := tree // what it gets mounts from, if none of these has it
	for _, m := range slaves {
		where, ok := at.seenIn(m)
		switch {
		case !ok:
			continue
		case len(copies) == 0:
			slave = k.copyTree(tree, m, where)
			k.subject(slave, tree, group != 0)
			copies = append(copies, slave)
		default:
			copies = append(copies, k.copyTree(slave, m, where))
		}
	}
	if group == 0 {
		return copies
	}
	for _, slaves := range k.slaves(group) {
		copies = append(copies, k.spreadToSlaves(slave, slaves, at)...)
	}
	return copies
}

// subject makes a copied tree the slave of another, and a peer group of its own if
// it is shared.
func (k *kernel) subject(slave, master []*mounted, shared bool) {
	for i, m := range slave {
		m.peers = peers{master: master[i].peers.group}
		if shared {
			m.peers.group = k.newGroup()
		}
	}
}

// seenIn returns the path at which another mount shows the place.
func (p place) seenIn(m *mounted) (where string, ok bool) {
	if m == p.in || m.Deleted != p.in.Deleted {
		return "", false
	}
	return m.outside(p.inside)
}

// copyTree returns a copy of a tree for a place in another mount.
func (k *kernel) copyTree(tree []*mounted, to *mounted, where string) []*mounted {
	ids := map[int]int{tree[0].Parent: to.ID}
	var copied []*mounted
	for _, m := range tree {
		c := *m
		c.ID = k.newID()
		ids[m.ID] = c.ID
		c.Parent = ids[m.Parent]
		c.Mountpoint = path.Join(where, rest(tree[0].Mountpoint, m.Mountpoint))
		copied = append(copied, &c)
	}
	return copied
}

// slip attaches a copied tree, under what is mounted at its place already.
func (k *kernel) slip(tree []*mounted) {
	top := tree[0]
	covering := k.attached(top.Parent, top.Mountpoint)
	k.mounts = append(k.mounts, tree...)
	if covering != nil {
		covering.Parent = top.ID
	}
}

// detach takes a mount, in which there are no others, out of the tree, and what
// its parent's propagation has made of it.
func (k *kernel) detach(m *mounted) {
	gone := append(k.echoes(m), m)
	for _, m := range gone {
		k.lift(m, gone)
	}
	k.mounts = slices.DeleteFunc(k.mounts, func(m *mounted) bool { return slices.Contains(gone, m) })
	for _, m := range gone {
		k.leave(m)
	}
}

// echoes returns what is mounted at the same place as m in the mounts that get
// mounts from m's parent, unless others are mounted inside it.
func (k *kernel) echoes(m *mounted) []*mounted {
	parent := k.byID(m.Parent)
	if parent == nil {
		return nil
	}
	at := place{parent, parent.inside(m.Mountpoint)}
	var echoes []*mounted
	for _, r := range k.receivers(parent.peers.group) {
		where, ok := at.seenIn(r)
		if echo := k.attached(r.ID, where); ok && echo != nil && echo != m && !slices.Contains(echoes, echo) {
			echoes = append(echoes, echo)
		}
	}
	for before := -1; before != len(echoes); {
		before = len(echoes)
		echoes = slices.DeleteFunc(echoes, func(echo *mounted) bool { return k.holds(echo, echoes) })
	}
	return echoes
}

// holds reports whether a mount has others in it that are to stay. One that covers
// it all can do without it.
func (k *kernel) holds(m *mounted, gone []*mounted) bool {
	return slices.ContainsFunc(k.in(m), func(in *mounted) bool {
		return in.Mountpoint != m.Mountpoint && k.stays(in, gone)
	})
}

// stays reports whether something stays where m is mounted: m, or what covers it.
func (k *kernel) stays(m *mounted, gone []*mounted) bool {
	if !slices.Contains(gone, m) {
		return true
	}
	covering := k.attached(m.ID, m.Mountpoint)
	return covering != nil && k.stays(covering, gone)
}

// lift attaches what covers a mount that is going to where that mount is.
func (k *kernel) lift(m *mounted, gone []*mounted) {
	covering := k.attached(m.ID, m.Mountpoint)
	if covering == nil || slices.Contains(gone, covering) {
		return
	}
	parent := m
	for slices.Contains(gone, parent) {
		parent = k.byID(parent.Parent)
	}
	covering.Parent = parent.ID
}

func (k *kernel) byID(id int) *mounted {
	at := slices.IndexFunc(k.mounts, func(m *mounted) bool { return m.ID == id })
	if at < 0 {
		return nil
	}
	return k.mounts[at]
}

package mount

import (
	"context"
	"slices"
)

// unmountTree unmounts the top mount at target and what is in it, the deepest
// and the latest first: when the turn comes to a mount nothing hides it any more.
func (m *Mounter) unmountTree(ctx context.Context, target string) error {
	parent, _, err := lookup{m: m, ctx: ctx}.parent(target) // refuses links
	if err != nil {
		return err
	}
	closeFD(parent)
	mounted, err := m.isMountPoint(ctx, target)
	if err != nil || !mounted {
		return err
	}
	s, in, table, err := m.findInTable(ctx, target)
	if err != nil {
		return err
	}
	for _, info := range insideFirst(table, in) {
		path := info.Mountpoint
		if info.ID == in.ID {
			path = s.where
		}
		err := m.exclusively(ctx, path, func(c *claim) error { return m.unmount(ctx, c, path) })
		if err != nil {
			return wrap("unmount", "", path, err)
		}
	}
	return nil
}

// insideFirst returns the mount and all in it, so that each comes after those in
// it and after those that were mounted later beside it.
func insideFirst(table Table, top Info) []Info {
	children := map[int][]Info{}
	for _, info := range table {
		if info.ID != info.Parent {
			children[info.Parent] = append(children[info.Parent], info)
		}
	}
	var order []Info
	var visit func(Info)
	visit = func(info Info) {
		inside := children[info.ID]
		delete(children, info.ID)
		for _, child := range slices.Backward(inside) {
			visit(child)
		}
		order = append(order, info)
	}
	visit(top)
	return order
}

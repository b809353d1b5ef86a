package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// unmountTree unmounts the top mount at target and what is in it, the deepest
// and the latest first: when the turn comes to a mount nothing hides it any more.
// Where that is not so (mounts that were moved) it comes again.
func (m *Mounter) unmountTree(ctx context.Context, target string) error {
	parent, _, err := lookup{m: m, ctx: ctx}.parent(target) // refuses links
	if err != nil {
		return err
	}
	closeFD(parent)
	mounted, err := m.isMountPoint(ctx, target)
	if err != nil {
		return err
	}
	if !mounted {
		return m.leaving.ends.waitBelow(ctx, target)
	}
	s, in, table, err := m.findInTable(ctx, target)
	if err != nil {
		return err
	}
	if in.Mountpoint != s.where { // it has been unmounted meanwhile
		return m.leaving.ends.waitBelow(ctx, target)
	}
	for {
		tree := insideFirst(table, in)
		hidden, err := m.unmountEach(ctx, tree, s.where)
		if err != nil || len(hidden) == 0 {
			return err
		}
		if len(hidden) == len(tree) {
			return fmt.Errorf("%s: %w", quote(hidden[0].Mountpoint), errOther)
		}
		if table, err = readTableIn(ctx); err != nil || !slices.ContainsFunc(table, func(i Info) bool { return i.ID == in.ID }) {
			return err
		}
	}
}

// unmountEach unmounts what it can see of a tree, whose top is at target, and
// returns the rest.
func (m *Mounter) unmountEach(ctx context.Context, tree []Info, target string) (hidden []Info, err error) {
	for i, info := range tree {
		path := info.Mountpoint
		if i == len(tree)-1 {
			path = target
		}
		switch err := m.unmount(ctx, path, uint64(info.ID)); {
		case errors.Is(err, errOther) || errors.Is(err, fs.ErrNotExist):
			hidden = append(hidden, info)
		case err != nil:
			return nil, wrap("unmount", "", path, err)
		}
	}
	return hidden, nil
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

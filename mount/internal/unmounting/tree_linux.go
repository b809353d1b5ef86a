package unmounting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/text"
)

// UnmountTree unmounts the top mount at target with the mounts inside it, in an order in which
// no mount hides the next. After a move of mounts the table can be in another order; then it
// is read again. A path that is no mount point is no error.
func (u *Unmounter) UnmountTree(ctx context.Context, target string) error {
	id, where, err := u.findTree(ctx, target)
	if err != nil {
		return err
	}
	if id == 0 {
		return u.ends.awaitTree(ctx, target)
	}
	mounts, err := u.readTree(ctx, id)
	isGone := errors.Is(err, mountinfo.ErrNotInTable)
	if err != nil && !isGone {
		return err
	}
	if isGone || mounts[len(mounts)-1].Mountpoint != where { // another process has unmounted it meanwhile
		return u.ends.awaitTree(ctx, target)
	}
	for {
		hidden, err := u.unmountEach(ctx, mounts, where)
		if err != nil || len(hidden) == 0 {
			return err
		}
		left, err := u.readTree(ctx, id)
		if err != nil {
			return ignoreError(err, mountinfo.ErrNotInTable)
		}
		if containsAll(left, mounts) {
			return fmt.Errorf("%s: %w", text.Quote(hidden[0].Mountpoint), errHidden)
		}
		mounts = left
	}
}

// containsAll reports whether table has all the mounts.
func containsAll(table, mounts []*mountinfo.Entry) bool {
	ids := make(map[int]bool, len(table))
	for _, mount := range table {
		ids[mount.ID] = true
	}
	return !slices.ContainsFunc(mounts, func(mount *mountinfo.Entry) bool { return !ids[mount.ID] })
}

// findTree returns the ID of the top mount at target, which no symbolic link leads to, and its
// path in the mount table. Without a mount the ID is 0.
func (u *Unmounter) findTree(ctx context.Context, target string) (id uint64, where string, err error) {
	parent, name, err := u.Resolver.WithoutLinks().OpenParent(ctx, target)
	if err != nil {
		return 0, "", err
	}
	defer kernel.Close(parent)
	fd, err := u.Resolver.FollowingLinks().OpenChild(ctx, parent, name)
	var stale *lookup.StaleError
	if errors.As(err, &stale) {
		return uint64(stale.Mount.ID), stale.Mount.Mountpoint, nil
	}
	if err != nil {
		return 0, "", err
	}
	top, err := kernel.Identify(fd)
	kernel.Close(fd)
	if err != nil {
		return 0, "", err
	}
	above, err := kernel.Identify(parent)
	if err != nil || top.Mount == above.Mount {
		return 0, "", err
	}
	dir, err := kernel.PathOf(parent)
	if err != nil {
		return 0, "", err
	}
	if !path.IsAbs(dir) { // "(unreachable)/..."
		return 0, "", fmt.Errorf("%q is outside of the root directory: %w", dir, fs.ErrNotExist)
	}
	return top.Mount, path.Join(dir, name), nil
}

// readTree returns the mount with an ID and the mounts inside it from the mount table, in the
// order of unmounting: the mount itself is the last.
func (u *Unmounter) readTree(ctx context.Context, id uint64) ([]*mountinfo.Entry, error) {
	table, err := mountinfo.Read(ctx)
	if err != nil {
		return nil, err
	}
	at, err := mountinfo.FindMount(table, id)
	if err != nil {
		return nil, err
	}
	children := entriesByParent{}
	for i := range table {
		entry := &table[i]
		if entry.ID != entry.Parent {
			children[entry.Parent] = append(children[entry.Parent], entry)
		}
	}
	return appendInsideFirst(nil, &table[at], children), nil
}

// entriesByParent has the entries of the mount table by the mount ID of the parent.
type entriesByParent map[int][]*mountinfo.Entry

// appendInsideFirst appends a mount and the mounts inside it in the order of unmounting: a
// mount comes after those inside it, and after later ones in the same parent, which can hide
// it. It removes the mount's entry from children, which ends loops.
func appendInsideFirst(order []*mountinfo.Entry, mount *mountinfo.Entry, children entriesByParent) []*mountinfo.Entry {
	inside := children[mount.ID]
	delete(children, mount.ID)
	for _, child := range slices.Backward(inside) {
		order = appendInsideFirst(order, child, children)
	}
	return append(order, mount)
}

// unmountEach unmounts the mounts of a tree in order. The last is the tree's top, at target.
// It returns the mounts that are hidden under others, and those that have a hidden mount
// inside: they are busy until it is unmounted.
func (u *Unmounter) unmountEach(
	ctx context.Context, mounts []*mountinfo.Entry, target string,
) (hidden []*mountinfo.Entry, err error) {
	hasHidden := map[int]bool{}
	hide := func(mount *mountinfo.Entry) {
		hidden = append(hidden, mount)
		hasHidden[mount.Parent] = true
	}
	for i, mount := range mounts {
		if hasHidden[mount.ID] {
			hide(mount)
			continue
		}
		path := mount.Mountpoint
		if i == len(mounts)-1 {
			path = target
		}
		switch err := u.unmount(ctx, path, uint64(mount.ID)); {
		case errors.Is(err, errHidden) || errors.Is(err, fs.ErrNotExist):
			hide(mount)
		case err != nil:
			return nil, addMountPoint(path, err)
		}
	}
	return hidden, nil
}

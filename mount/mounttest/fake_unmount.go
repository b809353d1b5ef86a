package mounttest

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

func (f *Fake) unmount(target string) error {
	at, err := f.lookup(target)
	if err != nil || !at.isMountPoint() {
		return err
	}
	return f.takeDown(at.in)
}

// takeDown unmounts a mount, or returns what keeps it.
func (f *Fake) takeDown(m *mounted) error {
	if len(f.kernel.in(m)) > 0 {
		return syscall.EBUSY
	}
	if f.hangs(m.FSType, m.Mountpoint) && f.policy.Last != mount.UnmountQuarantine {
		return fmt.Errorf("%w: %w", mount.ErrNotAnswering, syscall.EBUSY)
	}
	f.kernel.detach(m)
	return nil
}

// unmountTree unmounts the top mount at target and what is in it, one after the
// other, each as Unmount would.
func (f *Fake) unmountTree(ctx context.Context, target string) error {
	tree, err := f.tree(ctx, target)
	if err != nil {
		return err
	}
	for _, m := range tree {
		action := Action{Op: OpUnmount, Target: m.Mountpoint}
		err := f.exclusively(ctx, action, func() error {
			if f.kernel.byID(m.ID) == nil { // gone with a peer, say
				return nil
			}
			return f.takeDown(m)
		})
		if err != nil {
			return &mount.Error{Op: OpUnmount, Target: m.Mountpoint, Err: err}
		}
	}
	return nil
}

// tree returns the top mount at target and all in it, each after those in it and
// after those that were mounted later beside it. Without a mount it is empty.
func (f *Fake) tree(ctx context.Context, target string) (tree []*mounted, err error) {
	err = f.answered(ctx, OpUnmountTree, func() error {
		at, err := f.lookup(target)
		if err == nil && at.isMountPoint() {
			tree = f.kernel.insideFirst(at.in)
		}
		return err
	})
	return tree, err
}

func (k *kernel) insideFirst(m *mounted) []*mounted {
	var order []*mounted
	for _, in := range slices.Backward(k.in(m)) {
		order = append(order, k.insideFirst(in)...)
	}
	return append(order, m)
}

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
	return f.unmountOne(at.in)
}

// unmountOne unmounts a mount, or returns the kernel's error.
func (f *Fake) unmountOne(m *fakeMount) error {
	if len(f.kernel.children(m)) > 0 {
		return syscall.EBUSY
	}
	if f.hangs(m.FSType, m.Mountpoint) && f.policy.Last != mount.UnmountQuarantine {
		return fmt.Errorf("%w: %w", mount.ErrNotAnswering, syscall.EBUSY)
	}
	f.kernel.detach(m)
	return nil
}

// unmountTree unmounts the top mount at target and the mounts inside it, one after the
// other, each as Unmount would.
func (f *Fake) unmountTree(ctx context.Context, target string) error {
	tree, err := f.mountsOfTree(ctx, target)
	if err != nil {
		return err
	}
	for _, m := range tree {
		action := Action{Op: OpUnmount, Target: m.Mountpoint}
		err := f.runExclusive(ctx, action, func() error {
			if f.kernel.mountByID(m.ID) == nil { // gone with a peer, say
				return nil
			}
			return f.unmountOne(m)
		})
		if err != nil {
			return &mount.Error{Op: OpUnmount, Target: m.Mountpoint, Err: err}
		}
	}
	return nil
}

// mountsOfTree returns the top mount at target and all mounts inside it, each after those
// inside it and after later ones beside it. Without a mount it is empty.
func (f *Fake) mountsOfTree(ctx context.Context, target string) (tree []*fakeMount, err error) {
	err = f.runAnswered(ctx, OpUnmountTree, func() error {
		at, err := f.lookup(target)
		if err == nil && at.isMountPoint() {
			tree = f.kernel.insideFirst(at.in)
		}
		return err
	})
	return tree, err
}

func (k *kernel) insideFirst(m *fakeMount) []*fakeMount {
	var order []*fakeMount
	for _, in := range slices.Backward(k.children(m)) {
		order = append(order, k.insideFirst(in)...)
	}
	return append(order, m)
}

package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// undoTime is how long undo waits for others to take down what they have mounted
// on the tree in the same instant. Those that mount by this package do so at once.
const undoTime = time.Second

// undo unmounts an attached tree, and no other. umount2(2) takes the topmost mount,
// even of a descriptor's path, so ours has to come to light first.
func undo(ctx context.Context, built *tree, t *target) error {
	for begin := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		attached, err := isAttached(built)
		if err != nil || !attached {
			return err
		}
		top, err := isTop(built, t)
		if err != nil {
			return err
		}
		if top {
			// Of a tree that is shared its peers' mounts would go along.
			if err := unix.Mount("", procFD(built.fd), "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
				return err
			}
			err := unix.Unmount(procFD(built.fd), unix.MNT_DETACH)
			if err != nil && !errors.Is(err, unix.EINVAL) {
				return err
			}
			continue
		}
		waited := time.Since(begin)
		if waited > undoTime || ctx.Err() != nil && waited > settle {
			return fmt.Errorf("it is under another mount: %w", unix.EBUSY)
		}
	}
}

func isAttached(built *tree) (bool, error) {
	_, err := statusOf(built.fd)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// isTop reports whether the target leads to the tree.
func isTop(built *tree, t *target) (bool, error) {
	ours, err := identify(built.fd)
	if err != nil {
		return false, err
	}
	top, err := mountAt(t.parent, t.name)
	return top == ours.mount, err
}

package mount

import (
	"errors"

	"golang.org/x/sys/unix"
)

// undo unmounts an attached tree. umount2(2) takes the topmost mount, even of a
// descriptor's path, so what others have mounted on it in the same instant must
// be gone first: it is theirs to take down, and then ours is still there.
func undo(built *tree, t *target) error {
	ours, err := identify(built.fd)
	if err != nil {
		return err
	}
	top, err := mountAt(t.parent, t.name)
	if err != nil {
		return err
	}
	if top != ours.mount {
		if isAttached(built) {
			return unix.EBUSY
		}
		return nil // it went down with what it was on
	}
	err = unix.Unmount(procFD(built.fd), unix.MNT_DETACH)
	if errors.Is(err, unix.EINVAL) {
		return nil // it is not attached any more
	}
	return err
}

// isAttached reports whether the mount table has the tree, also when it cannot be
// asked.
func isAttached(built *tree) bool {
	_, err := statusOf(built.fd)
	return !errors.Is(err, unix.ENOENT)
}

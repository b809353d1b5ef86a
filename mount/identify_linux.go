package mount

import (
	"context"

	"golang.org/x/sys/unix"
)

// mountID asks at once if the way there is in the kernel's memory.
func (m *Mounter) mountID(ctx context.Context, p string) (uint64, error) {
	fd, err := openCached(unix.AT_FDCWD, p, 0, 0)
	if mustAsk(err) {
		fd, err = m.openMountPoint(ctx, p)
	}
	if err != nil {
		return 0, err
	}
	defer closeFD(fd)
	return mountIDOf(fd)
}

func (m *Mounter) openMountPoint(ctx context.Context, p string) (int, error) {
	l := lookup{m: m, ctx: ctx, followLinks: true}
	parent, name, err := l.parent(p)
	if err != nil {
		return -1, err
	}
	defer closeFD(parent)
	return l.child(parent, name)
}

// mountIDOf returns the mount whose root fd is, or 0. A kernel that has the numbers says
// what a root is, too.
func mountIDOf(fd int) (uint64, error) {
	var x unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|quiet, unix.STATX_MNT_ID_UNIQUE, &x)
	if err != nil {
		return 0, err
	}
	root, ok := mountRoot(&x)
	switch {
	case !ok || x.Mask&unix.STATX_MNT_ID_UNIQUE == 0:
		return 0, errNoUniqueIDs
	case !root:
		return 0, nil
	}
	return x.Mnt_id, nil
}

package main

import (
	"context"
	"strconv"

	"golang.org/x/sys/unix"
)

// measureMountPoint checks whether a directory is a mount point.
func measureMountPoint(b *bench) error {
	n, err := newNode(b.dir)
	if err != nil {
		return err
	}
	never := context.Background()
	return b.measureInCrowds(n, smallestAndLargest(b.mounts),
		n.isMountPoint(never, "is a mount point, N mounts", n.pods),
		n.isMountPoint(b.ctx, "is a mount point, with a context that can end, N mounts", n.pods),
		n.isMountPoint(never, "is no mount point, N mounts", n.source()),
	)
}

func (n *node) isMountPoint(ctx context.Context, work, dir string) trial {
	return trial{
		work:  work,
		ours:  query(func() (bool, error) { return n.ours.IsMountPoint(ctx, dir) }),
		peer:  query(func() (bool, error) { return n.peer.IsMountPoint(dir) }),
		floor: query(func() (bool, error) { return rawIsMountPoint(dir) }),
	}
}

// query returns a side whose state is the last result.
func query(ask func() (bool, error)) side {
	var answer bool
	return side{
		up: func() (err error) {
			answer, err = ask()
			return err
		},
		seen: func() (string, error) { return strconv.FormatBool(answer), nil },
	}
}

func rawIsMountPoint(dir string) (bool, error) {
	var x unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	err := unix.Statx(unix.AT_FDCWD, dir, flags, 0, &x)
	return x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, err
}

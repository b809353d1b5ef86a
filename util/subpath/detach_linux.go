package subpath

import (
	"context"
	"path"
	"strconv"

	"github.com/volumekit/volumekit/mount"
	"golang.org/x/sys/unix"
)

// detach detaches a bind mount (MNT_DETACH), in use or not, if its pod has gone, or if its
// file or directory has been removed from the volume: then only open files lead to it. It
// reports whether it did.
//
// A file system lives until the last user of a detached mount closes its files, and no call
// waits for that end. A disk must not look free while it is in use: so a file system on a
// disk is detached only for a caller that checks the device itself.
func (c cleaner) detach(ctx context.Context, in node, dir, name string) bool {
	n, err := openNode(in.fd, name)
	if err != nil {
		return false
	}
	defer n.close()
	if n.mount == in.mount || !c.may.gone && !isRemoved(n) {
		return false
	}
	if !c.may.Disks && !isOnSame(n, in) && !c.isWithoutDisk(ctx, path.Join(dir, name)) {
		return false
	}
	target := "/proc/self/fd/" + strconv.Itoa(in.fd) + "/" + name
	return unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil
}

// isRemoved reports whether the node certainly has no name any more.
func isRemoved(n node) bool {
	var x unix.Statx_t
	err := unix.Statx(n.fd, "", quiet, unix.STATX_NLINK, &x)
	return err == nil && x.Mask&unix.STATX_NLINK != 0 && x.Nlink == 0
}

func isOnSame(a, b node) bool {
	var x, y unix.Statx_t
	if unix.Statx(a.fd, "", quiet, unix.STATX_TYPE, &x) != nil || unix.Statx(b.fd, "", quiet, unix.STATX_TYPE, &y) != nil {
		return false
	}
	return x.Dev_major == y.Dev_major && x.Dev_minor == y.Dev_minor
}

// isWithoutDisk reads the mount table, as the file system itself may not answer.
func (c cleaner) isWithoutDisk(ctx context.Context, target string) bool {
	list, err := c.mounter.List(ctx)
	if err != nil {
		return false
	}
	info, ok := mount.Table(list).At(target)
	return ok && diskless[info.FSType]
}

// diskless lists the file system types in memory, and of servers that several nodes use at
// once. Other types, also those without a device number of their own (btrfs), may be on a
// disk.
var diskless = map[string]bool{
	"tmpfs": true, "ramfs": true, "nfs": true, "nfs4": true, "cifs": true, "smb3": true, "ceph": true, "9p": true, "virtiofs": true,
}

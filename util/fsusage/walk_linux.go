package fsusage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// An identity distinguishes a directory from a later one with the same inode number.
type identity struct {
	device, inode, mount uint64
	born                 unix.StatxTimestamp
}

// A found holds the attributes of an entry, from statx(2).
type found struct {
	identity
	bytes int64
	names uint32
	isDir bool
}

const (
	asItIs = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	toRead = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// statEntry reads the size and the identity of an entry, or of an open file if name is empty.
func statEntry(dir int, name string, flags int) (found, error) {
	const want = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_NLINK | unix.STATX_BLOCKS | unix.STATX_BTIME | unix.STATX_MNT_ID
	var x unix.Statx_t
	if err := unix.Statx(dir, name, asItIs|flags, want, &x); err != nil {
		return found{}, err
	}
	f := found{bytes: int64(x.Blocks) * 512, names: x.Nlink, isDir: x.Mode&unix.S_IFMT == unix.S_IFDIR}
	f.device, f.inode = unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino
	if x.Mask&unix.STATX_MNT_ID != 0 {
		f.mount = x.Mnt_id
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		f.born = x.Btime
	}
	return f, nil
}

// A tree is the top of a walk, open with O_PATH.
type tree struct {
	found
	fd int
}

func openTree(dir string) (tree, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return tree{}, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	f, err := statEntry(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		_ = unix.Close(fd)
		return tree{}, &os.PathError{Op: "statx", Path: dir, Err: err}
	}
	return tree{f, fd}, nil
}

func (t tree) close() { _ = unix.Close(t.fd) }

// openBelow opens a directory that is an entry of an open one. A mount point is EXDEV.
func openBelow(dir int, name string, home identity) (int, identity, error) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   toRead,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		fd, err = unix.Openat(dir, name, toRead, 0)
	}
	if err != nil {
		return -1, identity{}, err
	}
	f, err := statEntry(fd, "", unix.AT_EMPTY_PATH)
	if err == nil && !f.isIn(home) {
		err = unix.EXDEV
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, identity{}, err
	}
	return fd, f.identity, nil
}

// isIn reports whether the entry is in the mount of home. An older kernel does not tell mounts:
// then the device is compared, which is too strict for a subvolume of btrfs, and for a file on an
// overlay with several layers.
func (f found) isIn(home identity) bool {
	if f.mount != 0 {
		return f.mount == home.mount
	}
	return f.device == home.device
}

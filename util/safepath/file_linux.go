package safepath

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

func createFile(name string, perm fs.FileMode) (created bool, err error) {
	parent, base, err := OpenParent(context.Background(), name)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(parent) }()
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, base, flags, uint32(perm.Perm()))
	if err == nil {
		return true, unix.Close(fd)
	}
	if !errors.Is(err, unix.EEXIST) {
		return false, err
	}
	return false, isNoDir(parent, base)
}

// isNoDir returns nil unless the entry, or the root of a mount on it, is a directory or a
// symbolic link. It waits for no file system.
func isNoDir(parent int, base string) error {
	x, err := statEntry(parent, base)
	switch {
	case err != nil:
		return err
	case x.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.EISDIR
	case x.Mode&unix.S_IFMT == unix.S_IFLNK:
		return unix.ELOOP
	}
	return nil
}

func statEntry(parent int, base string) (unix.Statx_t, error) {
	var x unix.Statx_t
	const quiet = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	err := unix.Statx(parent, base, quiet, unix.STATX_TYPE|unix.STATX_SIZE|unix.STATX_NLINK, &x)
	return x, err
}

func removeEmptyFile(name string) error {
	parent, base, err := OpenParent(context.Background(), name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	x, err := statEntry(parent, base)
	switch {
	case err != nil:
		return err
	case x.Mode&unix.S_IFMT == unix.S_IFDIR:
		return ErrNotEmpty
	case x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return unix.EBUSY
	case x.Mode&unix.S_IFMT != unix.S_IFREG, x.Size > 0, x.Nlink > 1:
		return ErrNotEmpty
	}
	return unix.Unlinkat(parent, base, 0)
}

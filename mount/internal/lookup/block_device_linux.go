package lookup

import (
	"context"
	"errors"
	"path"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// FindBlockDevice returns the number of the block device at a path, with all links
// followed. A missing path is no error and no block device.
func (l Lookup) FindBlockDevice(ctx context.Context, p string) (d kernel.Device, block bool, err error) {
	for range maxLinks {
		if !path.IsAbs(p) {
			return d, false, nil
		}
		next, x, err := l.statNode(ctx, p)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			return d, false, nil
		}
		if err != nil || next == "" {
			return kernel.Device{Major: x.Rdev_major, Minor: x.Rdev_minor}, x.Mode&unix.S_IFMT == unix.S_IFBLK, err
		}
		p = next
	}
	return d, false, unix.ELOOP
}

// statNode returns the type and number of the file at a path, and the target of a symbolic
// link.
func (l Lookup) statNode(ctx context.Context, p string) (next string, x unix.Statx_t, err error) {
	dir, name := path.Split(p)
	if name == "" || name == "." || name == ".." { // a directory, if anything
		return "", x, nil
	}
	parent, err := l.Open(ctx, dir, unix.O_DIRECTORY)
	if err != nil {
		return "", x, err
	}
	defer kernel.Close(parent)
	fd, err := l.OpenChild(ctx, parent, name)
	if err != nil {
		return "", x, err
	}
	defer kernel.Close(fd)
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|kernel.Quiet, unix.STATX_TYPE, &x); err != nil {
		return "", x, err
	}
	link, err := kernel.ReadLink(fd)
	if err != nil || link == "" || path.IsAbs(link) {
		return link, x, err
	}
	// Not cleaned: the meaning of ".." depends on the links before it.
	where, err := kernel.PathOf(parent)
	return where + "/" + link, x, err
}

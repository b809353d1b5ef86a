package mount

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sys/unix"
)

// An origin is what mounts are made from.
type origin struct {
	source string // as it is written in the table
	// block: it is a block device, and mounts are from it whatever is written.
	block  bool
	device device
	// deviceAt tells the block device at a path, if there is one.
	deviceAt func(p string) (d device, block bool, err error)
}

// origin finds out what a source is.
func (m *Mounter) origin(ctx context.Context, source string) (o origin, err error) {
	o.source = source
	o.deviceAt = func(p string) (device, bool, error) {
		return lookup{m: m, ctx: ctx, followLinks: true}.blockDevice(p)
	}
	o.device, o.block, err = o.deviceAt(source)
	return o, err
}

// only returns those that are from the origin.
func (o origin) only(infos []Info) (from []Info, err error) {
	for _, info := range infos {
		ok, err := o.matches(info)
		if err != nil {
			return nil, err
		}
		if ok {
			from = append(from, info)
		}
	}
	return from, nil
}

// matches goes by the number of the device. Btrfs, which may be on several, has
// numbers of its own, and names one of its devices.
func (o origin) matches(info Info) (bool, error) {
	switch {
	case !o.block:
		return info.Source == o.source, nil
	case info.FSType != "btrfs":
		return device{info.Major, info.Minor} == o.device, nil
	}
	d, block, err := o.deviceAt(info.Source)
	return block && d == o.device, err
}

// blockDevice tells which block device a path leads to, links followed. A path that
// leads nowhere leads to none.
func (l lookup) blockDevice(p string) (d device, block bool, err error) {
	for range mostLinks {
		if !path.IsAbs(p) {
			return d, false, nil
		}
		next, x, err := l.node(p)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			return d, false, nil
		}
		if err != nil || next == "" {
			return device{x.Rdev_major, x.Rdev_minor}, x.Mode&unix.S_IFMT == unix.S_IFBLK, err
		}
		p = next
	}
	return d, false, unix.ELOOP
}

// node asks what is at a path, and of a symbolic link where it leads next.
func (l lookup) node(p string) (next string, x unix.Statx_t, err error) {
	dir, name := path.Split(p)
	if name == "" || name == "." || name == ".." { // a directory, if anything
		return "", x, nil
	}
	parent, err := l.open(dir, unix.O_DIRECTORY)
	if err != nil {
		return "", x, err
	}
	defer closeFD(parent)
	fd, err := l.child(parent, name)
	if err != nil {
		return "", x, err
	}
	defer closeFD(fd)
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|quiet, unix.STATX_TYPE, &x); err != nil {
		return "", x, err
	}
	link, err := readLink(fd)
	if err != nil || link == "" || path.IsAbs(link) {
		return link, x, err
	}
	// Not cleaned: what ".." is depends on the links before it.
	where, err := pathOf(parent)
	return where + "/" + link, x, err
}

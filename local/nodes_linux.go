package local

import (
	"context"
	"io/fs"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// kernelNodes are the files of this node.
type kernelNodes struct{}

// kind implements nodes. The statx needs no answer of a file system that the kernel has
// cached.
func (kernelNodes) kind(name string) (kind, error) {
	parent, base, err := safepath.OpenParent(context.Background(), name)
	if err != nil {
		return kindOther, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(parent) }()
	var x unix.Statx_t
	const quiet = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(parent, base, quiet, unix.STATX_TYPE, &x); err != nil {
		return kindOther, &fs.PathError{Op: "statx", Path: name, Err: err}
	}
	switch x.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return kindDirectory, nil
	case unix.S_IFBLK:
		return kindDevice, nil
	case unix.S_IFLNK:
		return kindLink, nil
	}
	return kindOther, nil
}

func (kernelNodes) readLink(name string) (string, error) {
	parent, base, err := safepath.OpenParent(context.Background(), name)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(parent) }()
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(parent, base, buffer)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buffer[:n]), nil
}

package docker

import (
	"context"
	"os"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// ownRoot gives the root directory of a mounted volume an owner and a mode.
func ownRoot(ctx context.Context, path string, o options) error {
	_, err := ctxend.Await(ctx, ctxend.Kernel, func() (struct{}, error) { return struct{}{}, setOwner(path, o) }, nil)
	return err
}

func setOwner(path string, o options) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	if o.uid != nil || o.gid != nil {
		if err := unix.Fchown(fd, orKeep(o.uid), orKeep(o.gid)); err != nil {
			return &os.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	if o.mode != nil { // after the owner: chown(2) clears bits
		if err := unix.Fchmod(fd, uint32(*o.mode)); err != nil {
			return &os.PathError{Op: "chmod", Path: path, Err: err}
		}
	}
	return nil
}

// orKeep returns an ID for chown(2), for which -1 keeps the owner.
func orKeep(id *int64) int {
	if id == nil {
		return -1
	}
	return int(*id)
}

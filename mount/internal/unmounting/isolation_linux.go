package unmounting

import (
	"context"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// Isolate makes the top mount at target, and the mounts inside it, private. A path that is no
// mount point is no error. The mounted file system is not queried.
func (u *Unmounter) Isolate(ctx context.Context, target string) error {
	unlock, err := u.Locks.Lock(ctx, target)
	if err != nil {
		return ctxend.Error(ctx)
	}
	defer unlock()
	parent, name, err := u.Resolver.WithoutLinks().OpenParent(ctx, target)
	if err != nil {
		return err
	}
	defer kernel.Close(parent)
	fd, err := u.Resolver.FollowingLinks().OpenChild(ctx, parent, name)
	if err != nil {
		return err
	}
	defer kernel.Close(fd)
	above, err := kernel.LocationOf(parent)
	if err != nil {
		return err
	}
	if at, err := kernel.LocationOf(fd); err != nil || !at.IsMountIn(above) {
		return err
	}
	return makePrivate(fd)
}

// makePrivate ends the propagation of the mount with the root fd, and of the mounts inside it.
func makePrivate(fd int) error {
	return unix.Mount("", kernel.DescriptorPath(fd), "", unix.MS_PRIVATE|unix.MS_REC, "")
}

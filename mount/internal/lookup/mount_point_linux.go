package lookup

import (
	"context"
	"errors"
	"path"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"golang.org/x/sys/unix"
)

// IsMountPoint reports whether p, an absolute path, is a mount point. Links on the way are
// followed; a link itself is no mount point. The mounted file system is not queried.
func (r *Resolver) IsMountPoint(ctx context.Context, p string) (bool, error) {
	if ctx.Done() == nil {
		is, err := IsMountPoint(p)
		if errors.Is(err, unix.ESTALE) {
			return r.isMountPointStepwise(ctx, p)
		}
		return is, err
	}
	fd, err := kernel.OpenCached(unix.AT_FDCWD, p, 0, 0)
	if kernel.IsUncached(err) {
		return r.isMountPointStepwise(ctx, p)
	}
	if err != nil {
		return false, err
	}
	defer kernel.Close(fd)
	var x unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|kernel.Quiet, 0, &x); err != nil {
		return false, err
	}
	if answer, ok := kernel.IsMountRoot(&x); ok {
		return answer, nil
	}
	return r.isMountPointStepwise(ctx, p)
}

// isMountPointStepwise compares the mount of p with that of its parent directory.
func (r *Resolver) isMountPointStepwise(ctx context.Context, p string) (bool, error) {
	l := r.FollowingLinks()
	parent, name, err := l.OpenParent(ctx, p)
	if err != nil {
		return false, err
	}
	defer kernel.Close(parent)
	fd, err := l.OpenChild(ctx, parent, name)
	if errors.As(err, new(*StaleError)) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer kernel.Close(fd)
	above, err := kernel.Identify(parent)
	if err != nil {
		return false, err
	}
	here, err := kernel.Identify(fd)
	return above.Mount != here.Mount || p == "/", err
}

// IsMountPoint is [Resolver.IsMountPoint] for callers without a deadline: the call waits for
// the file systems on the way.
func IsMountPoint(p string) (bool, error) {
	p = path.Clean(p)
	var x unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, p, kernel.Quiet, 0, &x); err != nil {
		return false, err
	}
	if answer, ok := kernel.IsMountRoot(&x); ok {
		return answer, nil
	}
	if p == "/" {
		return true, nil
	}
	dir, base := path.Split(p)
	parent, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer kernel.Close(parent)
	return kernel.DiffersFromParent(parent, base)
}

// MountIDAt returns the unique mount ID of the mount point p, an absolute path, or 0 if p is no
// mount point. Links on the way are followed. The mounted file system is not queried.
func (r *Resolver) MountIDAt(ctx context.Context, p string) (uint64, error) {
	fd, err := kernel.OpenCached(unix.AT_FDCWD, p, 0, 0)
	if kernel.IsUncached(err) {
		return r.mountIDStepwise(ctx, p)
	}
	if err != nil {
		return 0, err
	}
	defer kernel.Close(fd)
	return kernel.RootMountID(fd)
}

// mountIDStepwise is MountIDAt for a path that the kernel does not have in memory.
func (r *Resolver) mountIDStepwise(ctx context.Context, p string) (uint64, error) {
	l := r.FollowingLinks()
	parent, name, err := l.OpenParent(ctx, p)
	if err != nil {
		return 0, err
	}
	defer kernel.Close(parent)
	fd, err := l.OpenChild(ctx, parent, name)
	var stale *StaleError
	if errors.As(err, &stale) {
		return findUniqueID(parent, stale.Mount)
	}
	if err != nil {
		return 0, err
	}
	defer kernel.Close(fd)
	return kernel.RootMountID(fd)
}

// findUniqueID returns the unique mount ID of a mount in the mount of the directory parent, or 0 if
// it has just been unmounted.
func findUniqueID(parent int, mount mountinfo.Entry) (uint64, error) {
	above, err := kernel.UniqueMountID(parent)
	if err != nil {
		return 0, err
	}
	inside, err := record.ListIn(above)
	if err != nil {
		return 0, err
	}
	var reader record.Reader
	for _, id := range inside {
		r, err := reader.Read(id, record.WantMount)
		if err == nil && int(r.TableID) == mount.ID {
			return id, nil
		}
	}
	return 0, nil
}

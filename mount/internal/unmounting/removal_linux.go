package unmounting

import (
	"context"
	"errors"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// A Removal is the unmount of a directory with the removal of the directory.
type Removal struct {
	Path string
	// MayWait permits calls that wait for the file system of the parent directory.
	MayWait bool
}

// Remove unmounts the top mount at a path, if any, and removes the directory, unless a step
// may wait. It reports which of the two it has done: a missing directory is removed.
//
// It skips the check of the mount table after umount2(2): the kernel does not remove a
// directory that is a mount point.
func (u *Unmounter) Remove(ctx context.Context, r Removal) (unmounted, removed bool) {
	unlock, ok := u.Locks.TryLock(r.Path)
	if !ok {
		return false, false
	}
	defer unlock()
	if len(u.ends.pendingAt(r.Path)) > 0 {
		return false, false
	}
	d := &departure{u: u, path: r.Path, parent: -1, hold: -1}
	defer d.close()
	mounted, ok := d.findRemovable(ctx, r)
	if !ok {
		return false, false
	}
	if mounted && unmountAt(d.parent, d.name, 0) != nil {
		return false, false
	}
	err := unix.Unlinkat(d.parent, d.name, unix.AT_REMOVEDIR)
	return mounted, err == nil || errors.Is(err, unix.ENOENT)
}

// findRemovable reports whether the path is a mount point, and whether Remove may proceed:
//
//   - changes of the parent directory wait for nothing, or r.MayWait;
//   - the superblock is outlived, so the unmount does not wait for its end;
//   - the kernel has unique mount IDs (Linux 6.8).
func (d *departure) findRemovable(ctx context.Context, r Removal) (mounted, ok bool) {
	var err error
	if d.parent, d.name, err = d.u.Resolver.WithoutLinks().OpenParent(ctx, r.Path); err != nil {
		return false, false
	}
	above, err := kernel.LocationOf(d.parent)
	if err != nil || !above.ID.Unique {
		return false, false
	}
	if !r.MayWait && ctx.Done() != nil && !d.u.Kinds.IsInMemory(above.ID) {
		return false, false
	}
	fd, err := kernel.OpenCached(d.parent, d.name, 0, 0) // it waits for no mounted file system
	if err == nil {
		d.mount, err = kernel.LocationOf(fd)
		kernel.Close(fd)
	}
	if err != nil || !d.mount.IsMountIn(above) {
		return false, ctx.Err() == nil // rmdir(2) reports the error, also of a mount that cannot be entered
	}
	d.u.ForgetAnchor(d.mount.ID)
	outlived, err := d.register(ctx, above)
	return true, outlived && err == nil && ctx.Err() == nil
}

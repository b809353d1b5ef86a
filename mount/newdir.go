package mount

import (
	"context"
	"io/fs"
	"path"

	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
)

// Patience is the permission of a call to wait for a file system.
type Patience int

const (
	// NoWait is for callers that return with their context: the call makes no system call
	// that may wait for a file system.
	NoWait Patience = iota
	// MayWait permits the call to wait for the file system of the target's directory, also
	// after ctx has ended: for goroutines for which no caller waits. After the end of ctx the
	// call still makes no mount.
	MayWait
)

// MountNew creates the directory req.Target and binds req.Source there, with fewer system
// calls than os.Mkdir and [Mounter.Mount]: it opens the parent directory once, and a new
// directory has no mount to compare with. The new directory has the permissions perm (before
// umask).
//
// It covers the common case only. In the other cases it returns false without a change, and
// the caller makes the general calls, whose error states the reason:
//   - the target exists, or its parent directory is missing;
//   - the request is invalid, or not for a bind mount of a directory;
//   - another call changes the target;
//   - the kernel is older than Linux 6.8;
//   - with [NoWait] and a ctx that can end: the target is not in a tmpfs or ramfs.
//
// An error wraps [ErrUncertain]: the directory or the mount could not be removed again.
func (m *Mounter) MountNew(ctx context.Context, req Request, perm fs.FileMode, wait Patience) (mounted bool, err error) {
	s := req.spec()
	if s.Check(options.Allow(m.config.Allow)) != nil || !s.IsBind() || s.Remount || s.Stack || m.begin(ctx) != nil {
		return false, nil
	}
	s.Target = path.Clean(s.Target)
	mounted, err = m.mountNew(ctx, &s, perm, wait)
	return mounted, wrap("mount", s.Source, s.Target, err)
}

// UnmountRemove unmounts the top mount at target, if any, and removes the directory, with
// fewer system calls than [Mounter.Unmount] and os.Remove: it opens the parent directory
// once, and does not check the mount table, since the kernel removes no mount point.
//
// It covers the common case only, like [Mounter.MountNew], and reports which of the two
// steps it has done; a missing directory counts as removed. The caller makes the general
// calls for the rest, whose error states the reason:
//   - the mount is busy, or covers another mount;
//   - its file system ends with it, which can take long;
//   - the directory is not empty;
//   - another call changes the target;
//   - the kernel is older than Linux 6.8;
//   - with [NoWait] and a ctx that can end: the target is not in a tmpfs or ramfs.
func (m *Mounter) UnmountRemove(ctx context.Context, target string, wait Patience) (unmounted, removed bool) {
	if spec.CheckPath("Target", target) != nil || m.config.Unmount.check() != nil || m.begin(ctx) != nil {
		return false, false
	}
	return m.unmountRemove(ctx, path.Clean(target), wait)
}

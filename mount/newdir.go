package mount

import (
	"context"
	"io/fs"
	"path"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
)

// A DirectoryMounter makes a directory together with the bind mount on it, and removes it
// together with the unmount, with fewer system calls than one after the other. A [*Mounter] is
// one. Its calls do the common case only and decline the rest, so a caller works with any
// [Interface]: see [As]. They are safe for concurrent use.
type DirectoryMounter interface {
	// MountNew creates the directory req.Target, with the missing parents that dir permits,
	// and binds req.Source there. A new directory has no mount to compare with.
	//
	// In other than the common case it returns false without a change, and the caller makes the
	// general calls, whose error states the reason. Such cases are:
	//   - the target exists, or a parent is missing that dir does not permit;
	//   - the request is invalid, or not for a bind mount of a directory without mounts in it;
	//   - the source is missing, a path contains a link, or the parent is read-only;
	//   - another call changes the target;
	//   - ctx has ended;
	//   - the kernel is older than Linux 6.8.
	//
	// With [ErrWouldWait] nothing has changed either: the call might wait for the file system
	// of the target's directory, and dir.Wait forbids that. Another error wraps [ErrUncertain]: the
	// mount, the directory or a new parent could not be removed again.
	//
	// After the end of ctx it mounts nothing. With [NoWait] it returns soon after that, with
	// [MayWait] when the file system of the target's directory answers.
	MountNew(ctx context.Context, req Request, dir NewDirectory) (mounted bool, err error)

	// UnmountRemove unmounts the top mount at target, if any, and removes the directory. It
	// does not check the mount table, since the kernel does not remove a directory that is a mount
	// point in the caller's mount namespace.
	//
	// It reports which of the two steps it has done; a directory that is missing in its parent
	// counts as removed. The caller makes the general calls for the rest, whose error states the reason:
	//   - the mount is busy, or covers another mount;
	//   - its file system ends with it, which can take long;
	//   - the directory is not empty;
	//   - another call changes the target;
	//   - the kernel is older than Linux 6.8;
	//   - with [NoWait] and a ctx that can end: the target is not in a tmpfs or ramfs.
	UnmountRemove(ctx context.Context, target string, wait Patience) (unmounted, removed bool)
}

var _ DirectoryMounter = (*Mounter)(nil)

// A NewDirectory describes the creation of a target.
type NewDirectory struct {
	// Perm are the permissions of the directory and of its new parents (before umask).
	Perm fs.FileMode
	// Below is a directory below which missing parents are created. Empty: none are.
	Below string
	Wait  Patience
}

// ErrWouldWait is the error of a call with [NoWait] that might have to wait for a file system.
var ErrWouldWait = failure.ErrWouldWait

// Patience is the permission of a call to wait for a file system.
type Patience int

const (
	// NoWait is for callers that return with their context: the call makes no system call
	// that may wait for the file system of the target's directory, unless ctx cannot end.
	NoWait Patience = iota
	// MayWait permits the call to wait for the file system of the target's directory, also
	// after ctx has ended: for goroutines for which no caller waits. After the end of ctx the
	// call still makes no mount.
	MayWait
)

// MountNew implements [DirectoryMounter].
func (m *Mounter) MountNew(ctx context.Context, req Request, dir NewDirectory) (mounted bool, err error) {
	s := req.spec()
	if s.Check(options.Allow(m.config.Allow)) != nil || !s.IsBind() || s.Remount || s.Stack || m.begin(ctx) != nil {
		return false, nil
	}
	s.Target = path.Clean(s.Target)
	mounted, err = m.mountNew(ctx, &s, dir)
	return mounted, wrap("mount", s.Source, s.Target, err)
}

// UnmountRemove implements [DirectoryMounter].
func (m *Mounter) UnmountRemove(ctx context.Context, target string, wait Patience) (unmounted, removed bool) {
	if spec.CheckPath("Target", target) != nil || m.config.Unmount.check() != nil || m.begin(ctx) != nil {
		return false, false
	}
	return m.unmountRemove(ctx, path.Clean(target), wait)
}

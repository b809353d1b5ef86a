package mounttest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
)

var _ mount.DirectoryMounter = (*Fake)(nil)

// MountNew implements [mount.DirectoryMounter]. It declines while there are faults, which the general
// calls meet, and if it does not use the system's files, because callers make directories there.
func (f *Fake) MountNew(ctx context.Context, req mount.Request, dir mount.NewDirectory) (mounted bool, err error) {
	req.Source, req.Target = tablepath.Of(req.Source), tablepath.Of(req.Target)
	options, err := req.Parse(f.allow)
	if err != nil || req.FSType != "" || req.Remount || req.Stack {
		return false, nil
	}
	req.Target = path.Clean(req.Target)
	return f.changeDirectory(ctx, mountAction(req, options), func() bool {
		made, err := f.makeDirectories(req.Target, dir)
		if err == nil {
			err = f.mount(req, options)
		}
		if err == nil {
			return true
		}
		for _, name := range slices.Backward(made) {
			_ = os.Remove(tablepath.Native(name))
		}
		return false
	}), nil
}

// UnmountRemove implements [mount.DirectoryMounter], as MountNew.
func (f *Fake) UnmountRemove(ctx context.Context, target string, _ mount.Patience) (unmounted, removed bool) {
	target = tablepath.Of(target)
	if checkTarget(target) != nil {
		return false, false
	}
	target = path.Clean(target)
	f.changeDirectory(ctx, Action{Op: OpUnmount, Target: target}, func() bool {
		at, err := f.lookup(target)
		if err == nil && at.isMountPoint() {
			if f.kernel.isLast(at.in) || f.unmountOne(at.in) != nil {
				return false
			}
			unmounted = true
		}
		removed = f.removeDirectory(target)
		return unmounted
	})
	return unmounted, removed
}

// changeDirectory runs work that changes a target and its directory, and logs the action if work
// returns true. It does nothing if the call has to be declined, or if another call changes the target.
func (f *Fake) changeDirectory(ctx context.Context, action Action, work func() bool) (done bool) {
	if ctx.Err() != nil {
		return false
	}
	unlock, ok := f.targets.TryLock(action.Target)
	if !ok {
		return false
	}
	defer unlock()
	f.lock()
	_, ok = f.kernel.files.(systemFiles)
	done = ok && len(f.faults) == 0 && work()
	f.mu.Unlock()
	if done {
		f.notifyWatchers()
		_ = f.finish(action, nil)
	}
	return done
}

// makeDirectories makes a directory and its missing parents below dir.Below, and returns their real paths, also along
// with an error.
func (f *Fake) makeDirectories(target string, dir mount.NewDirectory) (made []string, _ error) {
	at, rest, err := f.walk(target)
	switch {
	case err == nil:
		return nil, fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist) || at.real == "":
		return nil, err
	case isReadOnly(at.in):
		return nil, syscall.EROFS
	}
	names := strings.Split(rest, "/")
	if len(names) > 1 && !isStrictlyBelow(path.Join(at.path, names[0]), dir.Below) {
		return nil, fs.ErrNotExist
	}
	real := at.real
	for _, name := range names {
		real = path.Join(real, name)
		if err := os.Mkdir(tablepath.Native(real), dir.Perm.Perm()); err != nil {
			return made, err
		}
		made = append(made, real)
	}
	return made, nil
}

// isStrictlyBelow reports whether a clean path is below a directory, and is not the directory.
func isStrictlyBelow(name, dir string) bool {
	dir = path.Clean(tablepath.Of(dir))
	return name != dir && isBelow(dir, name)
}

// removeDirectory removes a directory that is no mount point, and reports whether it is missing in
// its parent now.
func (f *Fake) removeDirectory(target string) bool {
	parent, err := f.lookup(path.Dir(target))
	if err != nil || !parent.mode.IsDir() {
		return false
	}
	at, err := f.lookup(target)
	switch {
	case err != nil:
		return errors.Is(err, fs.ErrNotExist)
	case at.isMountPoint(), !at.mode.IsDir(), at.real == "", isReadOnly(at.in), f.kernel.isMountedOn(at.real):
		return false
	}
	return os.Remove(tablepath.Native(at.real)) == nil
}

// isMountedOn reports whether a real directory is a mount point, at whatever path.
func (k *kernel) isMountedOn(real string) bool {
	return slices.ContainsFunc(k.mounts, func(m *fakeMount) bool {
		on := slices.IndexFunc(k.mounts, func(parent *fakeMount) bool { return parent.ID == m.Parent })
		return on >= 0 && k.mounts[on].isReal() && k.mounts[on].rootPath(m.Mountpoint) == real
	})
}

// isLast reports whether the file system of a mount has no other mount, and ends with this one.
func (k *kernel) isLast(m *fakeMount) bool {
	for _, other := range k.mounts {
		if other != m && other.Major == m.Major && other.Minor == m.Minor {
			return false
		}
	}
	return true
}

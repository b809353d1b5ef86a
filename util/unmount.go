package util

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/safepath"
)

// UnmountPath unmounts everything that is mounted at path, one on top of the
// other, and removes the directory. It is [UnmountMountPoint] without options.
func UnmountPath(ctx context.Context, mounter mount.Interface, path string) error {
	return UnmountMountPoint(ctx, mounter, path)
}

// An UnmountOption changes what [UnmountMountPoint] does.
type UnmountOption func(*unmountOptions)

type unmountOptions struct {
	keep, endLater, file, isolate bool
	inside                        func(mount.Info) bool
}

// KeepDirectory leaves the directory, or file, on which the mounts were.
func KeepDirectory() UnmountOption { return func(o *unmountOptions) { o.keep = true } }

// AlsoFile removes an empty regular file, too, on which the mounts were.
func AlsoFile() UnmountOption { return func(o *unmountOptions) { o.file = true } }

// EndLater is for file systems of a network: one that has not ended when ctx does
// ([mount.ErrNotEnded]), since its server does not answer, is as good as one that
// has.
func EndLater() UnmountOption { return func(o *unmountOptions) { o.endLater = true } }

// WithThoseInside takes the mounts below path down, too, if it is busy and take is true
// of all of them: a network's file system may have made them itself, where the server
// has one in another.
func WithThoseInside(take func(mount.Info) bool) UnmountOption {
	return func(o *unmountOptions) { o.inside = take }
}

// Isolated has [WithThoseInside] make the mounts private first, by [mount.Isolator], so
// that what others share with them stays where they have it. If the mounter is none, and
// the mount table says that something is shared, the path stays busy.
func Isolated() UnmountOption { return func(o *unmountOptions) { o.isolate = true } }

// ErrPartlyUnmounted is wrapped by the error of a call that failed after it had
// unmounted something: a further mount is left, or the directory.
var ErrPartlyUnmounted = errors.New("unmounted in part")

// UnmountMountPoint takes down what is at path:
//
//   - missing: there is nothing to do;
//   - not a mount point: the directory is removed, if it is empty;
//   - mounted: it is unmounted, as often as something is mounted there, the mount
//     table is asked whether that is so, and then the directory is removed.
//
// It is idempotent. It never looks at the file system that is mounted, never
// removes more than the one directory, and that by rmdir(2): whatever is in it,
// or is mounted on it in the same instant, stays and is an error (ENOTEMPTY,
// EBUSY). A check that fails is an error, too, and nothing is removed then. A
// path that is, or leads through, a symbolic link is refused. Mounts below path
// are not taken down, they make it busy; see [WithThoseInside]. For a file that is a mount point use
// [KeepDirectory] or [AlsoFile]: a file is not removed, and is an error (ENOTDIR) without.
//
// A mount that is busy is tried again for some 30 ms: a look at its file system,
// or at the mount table, holds it for an instant.
//
// The error wraps [ErrPartlyUnmounted] if something was unmounted before, also if its
// file system has not ended ([mount.ErrNotEnded], see [EndLater]);
// [mount.ErrUncertain] if that is not known. With neither, what was mounted
// still is.
//
// When ctx ends, an error that wraps its cause is returned. The directory itself is
// removed without a context: the one that holds it is taken to be on a file system
// that answers.
func UnmountMountPoint(ctx context.Context, mounter mount.Interface, path string, options ...UnmountOption) error {
	var o unmountOptions
	for _, option := range options {
		option(&o)
	}
	undone, err := unmountAll(ctx, mounter, path, o)
	if err == nil && !o.keep {
		err = o.removePlace(path)
	}
	switch {
	case errors.Is(err, errMissing):
		return nil
	case err != nil && undone:
		return fmt.Errorf("%w: %w", ErrPartlyUnmounted, err)
	}
	return err
}

func (o unmountOptions) removePlace(path string) error {
	err := removeMountPoint(path)
	if !o.file || !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	if err := safepath.RemoveEmptyFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mount point: %w", err)
	}
	return nil
}

func removeMountPoint(path string) error {
	if err := safepath.Rmdir(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mount point: %w", err)
	}
	return nil
}

var errMissing = errors.New("the path is missing")

// mostStacked is how many mounts on one path are taken down before the mounter
// that says it has unmounted them is no longer believed.
const mostStacked = 1 << 16

// unmountAll unmounts until the mount table says that nothing is mounted at
// path, and reports whether it unmounted anything, also along with an error.
func unmountAll(ctx context.Context, mounter mount.Interface, path string, o unmountOptions) (undone bool, err error) {
	var gone error // what Unmount said of a path that it did not find
	for range mostStacked {
		if err := context.Cause(ctx); err != nil {
			return undone, fmt.Errorf("unmount %s: %w", path, err)
		}
		mounted, err := mounter.IsMountPoint(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			return undone, errMissing
		}
		if err != nil || !mounted {
			return undone, err
		}
		if gone != nil {
			return undone, gone
		}
		switch err := o.unmountBusy(ctx, mounter, path); {
		case err == nil:
			undone = true
		case errors.Is(err, mount.ErrNotEnded):
			return true, o.afterNotEnded(ctx, mounter, path, err)
		case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, mount.ErrUncertain):
			gone = err
		default:
			return undone, err
		}
	}
	return undone, fmt.Errorf("unmount %s: still mounted after %d times", path, mostStacked)
}

// afterNotEnded returns nil if the file system may end later and nothing else is
// mounted there. Its context has ended: it asks without, as the directory is removed.
func (o unmountOptions) afterNotEnded(ctx context.Context, mounter mount.Interface, path string, notEnded error) error {
	if !o.endLater {
		return notEnded
	}
	mounted, err := mounter.IsMountPoint(context.WithoutCancel(ctx), path)
	if mounted || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(notEnded, err)
	}
	return nil
}

// unmountBusy unmounts once, and tries again while the mount is busy: after 1,
// 2, 4, 8 and 16 ms.
func (o unmountOptions) unmountBusy(ctx context.Context, mounter mount.Interface, path string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := mounter.Unmount(ctx, path)
		if !errors.Is(err, syscall.EBUSY) || errors.Is(err, mount.ErrUncertain) {
			return err
		}
		if inside := o.thoseInside(ctx, mounter, path); len(inside) > 0 {
			if failed := o.separate(ctx, mounter, path, inside); failed != nil {
				return fmt.Errorf("%w: %w", err, failed)
			}
			return mounter.UnmountTree(ctx, path)
		}
		if wait > 16*time.Millisecond {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// thoseInside returns the mounts at and below path, if there are any below it and all may
// be taken down with it.
func (o unmountOptions) thoseInside(ctx context.Context, mounter mount.Interface, path string) (tree []mount.Info) {
	if o.inside == nil {
		return nil
	}
	table, err := mounter.List(ctx)
	if err != nil {
		return nil
	}
	found := false
	for _, info := range table {
		switch {
		case info.Mountpoint == path:
			tree = append(tree, info)
		case !strings.HasPrefix(info.Mountpoint, path+"/"):
		case !o.inside(info):
			return nil
		default:
			tree, found = append(tree, info), true
		}
	}
	if !found {
		return nil
	}
	return tree
}

var errShared = fmt.Errorf("others share what is mounted inside: %w", errors.ErrUnsupported)

// separate makes a tree of mounts private, if it is to be.
func (o unmountOptions) separate(ctx context.Context, mounter mount.Interface, path string, tree []mount.Info) error {
	if !o.isolate {
		return nil
	}
	if isolator, ok := mounter.(mount.Isolator); ok {
		return isolator.Isolate(ctx, path)
	}
	for _, info := range tree {
		if slices.ContainsFunc(info.Tags, func(tag string) bool { return strings.HasPrefix(tag, "shared:") }) {
			return errShared
		}
	}
	return nil
}

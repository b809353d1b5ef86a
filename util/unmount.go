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

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/intime"
	"github.com/volumekit/volumekit/util/internal/unmounting"
	"github.com/volumekit/volumekit/util/safepath"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// UnmountPath unmounts all stacked mounts at path, and removes the directory. It is
// [UnmountMountPoint] without options.
func UnmountPath(ctx context.Context, mounter mount.Interface, path string) error {
	return UnmountMountPoint(ctx, mounter, path)
}

// An UnmountOption configures [UnmountMountPoint].
type UnmountOption func(*unmounting.Options)

type unmountOptions struct{ unmounting.Options }

// KeepDirectory keeps the mount point, a directory or file.
func KeepDirectory() UnmountOption { return func(o *unmounting.Options) { o.Keep = true } }

// AlsoFile also removes a mount point that is an empty regular file.
func AlsoFile() UnmountOption { return func(o *unmounting.Options) { o.File = true } }

// EndLater accepts a network file system that has been unmounted but has not ended when ctx
// does ([mount.ErrNotEnded]), since its server does not answer.
func EndLater() UnmountOption { return func(o *unmounting.Options) { o.EndLater = true } }

// WithSubmounts also unmounts the mounts below path, if path is busy and include returns true
// for all of them: a network file system may have created them itself, for nested file
// systems of the server.
func WithSubmounts(include func(mount.Info) bool) UnmountOption {
	return func(o *unmounting.Options) { o.Inside = include }
}

// Isolated makes [WithSubmounts] set the mounts private first, by [mount.Isolator], so that
// their peers in other mount namespaces stay. If the mounter is not an Isolator, and the
// mount table shows a shared mount, path stays busy.
func Isolated() UnmountOption { return func(o *unmounting.Options) { o.Isolate = true } }

// ErrPartlyUnmounted is wrapped by the error of a call that failed after it had unmounted a
// mount: a further mount is left, or the directory.
var ErrPartlyUnmounted = errors.New("unmounted in part")

// UnmountMountPoint unmounts path and removes it:
//
//   - a missing path: it returns nil;
//   - a directory that is not a mount point: it removes the directory, if it is empty;
//   - a mount point: it unmounts until the mount table shows no mount at path, and then
//     removes the directory. With a [mount.Mounter] it lets the kernel remove the
//     directory without reading the mount table: rmdir(2) refuses a mount point.
//
// It is idempotent. It never accesses the mounted file system, and removes no more than the
// one directory, by rmdir(2): if the directory has content, or is mounted on in the same
// instant, it stays, with an error (ENOTEMPTY, EBUSY). If a check fails, it removes
// nothing and returns the error. A path that is a symbolic link, or contains one, is
// refused. Mounts below path are not unmounted and make it busy, see [WithSubmounts]; the error
// names the first one. For a file that is a mount point use [KeepDirectory] or [AlsoFile]:
// without them the file stays, with an error (ENOTDIR).
//
// A busy mount is retried for about 30 ms: a reader of its file system, or of the mount
// table, holds it for an instant.
//
// The error wraps [ErrPartlyUnmounted] if a mount was unmounted before, also if its file
// system has not ended ([mount.ErrNotEnded], see [EndLater]); [mount.ErrUncertain] if that
// is not certain. With neither, all mounts are still mounted.
//
// A nil mounter is refused with a [*field.Error]; a nil option changes nothing.
//
// When ctx ends, UnmountMountPoint returns soon, with an error that wraps the cause of ctx.
// The removal of the directory may continue then, if its file system does not answer.
func UnmountMountPoint(ctx context.Context, mounter mount.Interface, path string, options ...UnmountOption) (err error) {
	defer brief.Shorten(&err)
	if unmounting.IsNil(mounter) {
		return errNoMounter
	}
	var o unmountOptions
	for _, option := range options {
		if option != nil {
			option(&o.Options)
		}
	}
	if !o.Keep && !o.Undone && !intime.IsInside(ctx) {
		undone, done := unmounting.Remove(ctx, mounter, path, mount.NoWait)
		if done {
			return nil
		}
		o.Undone = undone
	}
	return intime.Run(ctx, ErrPartlyUnmounted, func(ctx context.Context) error { return o.unmount(ctx, mounter, path) })
}

func (o unmountOptions) unmount(ctx context.Context, mounter mount.Interface, path string) error {
	undone := o.Undone
	if !o.Keep && !undone {
		var removed bool
		if undone, removed = unmounting.Remove(ctx, mounter, path, mount.MayWait); removed {
			return nil
		}
	}
	more, err := unmountAll(ctx, mounter, path, o)
	undone = undone || more
	if err == nil && !o.Keep {
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
	if !o.File || !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	if err := safepath.RemoveEmptyFile(context.Background(), path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mount point: %w", err)
	}
	return nil
}

func removeMountPoint(path string) error {
	err := safepath.Rmdir(context.Background(), path)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ELOOP):
		err = fmt.Errorf("a symbolic link on the way: %w", err)
	}
	return fmt.Errorf("remove mount point: %w", err)
}

var errMissing = errors.New("the path is missing")

// mostStacked limits the unmounts on one path: a mounter that reports a mount even after so
// many successful unmounts is wrong.
const mostStacked = 1 << 16

// unmountAll unmounts until the mount table shows no mount at path, and reports whether it
// unmounted one, also along with an error.
func unmountAll(ctx context.Context, mounter mount.Interface, path string, o unmountOptions) (undone bool, err error) {
	var gone error // Unmount's error for a missing path
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
	return undone, fmt.Errorf("unmount %s: still mounted after %d unmounts", path, mostStacked)
}

// afterNotEnded returns nil if EndLater accepts the file system and path has no other mount.
// The context has ended, so it queries the mount table without: the directory is removed
// next.
func (o unmountOptions) afterNotEnded(ctx context.Context, mounter mount.Interface, path string, notEnded error) error {
	if !o.EndLater {
		return notEnded
	}
	mounted, err := mounter.IsMountPoint(context.WithoutCancel(ctx), path)
	if mounted || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(notEnded, err)
	}
	return nil
}

// unmountBusy unmounts once, and retries while the mount is busy: after 1, 2, 4, 8 and
// 16 ms.
func (o unmountOptions) unmountBusy(ctx context.Context, mounter mount.Interface, path string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := mounter.Unmount(ctx, path)
		if !errors.Is(err, syscall.EBUSY) || errors.Is(err, mount.ErrUncertain) {
			return err
		}
		if inside := o.submounts(ctx, mounter, path); len(inside) > 0 {
			if failed := o.separate(ctx, mounter, path, inside); failed != nil {
				return fmt.Errorf("%w: %w", err, failed)
			}
			err = mounter.UnmountTree(ctx, path)
			if err != nil && len(o.submounts(context.WithoutCancel(ctx), mounter, path)) != len(inside) {
				err = fmt.Errorf("%w: %w", ErrPartlyUnmounted, err)
			}
			return err
		}
		if wait > 16*time.Millisecond {
			return nameInside(ctx, mounter, path, err)
		}
		if ended := ctxend.Sleep(ctx, wait); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// nameInside adds to the error of a busy mount the first mount inside, if there is one.
func nameInside(ctx context.Context, mounter mount.Interface, path string, busy error) error {
	table, err := mounter.List(ctx)
	at := slices.IndexFunc(table, func(info mount.Info) bool { return isInside(info, path) })
	if err != nil || at < 0 {
		return busy
	}
	return fmt.Errorf("a mount is inside, at %s: %w", input.Quote(table[at].Mountpoint), busy)
}

// isInside reports whether a mount is below path.
func isInside(info mount.Info, path string) bool {
	return strings.HasPrefix(info.Mountpoint, strings.TrimRight(path, "/")+"/")
}

// submounts returns the mounts at and below path, if there are mounts below it and all may
// be unmounted with it.
func (o unmountOptions) submounts(ctx context.Context, mounter mount.Interface, path string) (tree []mount.Info) {
	if o.Inside == nil {
		return nil
	}
	table, err := mounter.List(ctx)
	if err != nil {
		return nil
	}
	found := false
	for _, info := range table {
		switch {
		case info.Mountpoint == strings.TrimRight(path, "/"):
			tree = append(tree, info)
		case !isInside(info, path):
		case !o.Inside(info):
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

var errShared = fmt.Errorf("a mount inside is shared with other mount namespaces: %w", errors.ErrUnsupported)

// separate makes a tree of mounts private if Isolate is set.
func (o unmountOptions) separate(ctx context.Context, mounter mount.Interface, path string, tree []mount.Info) error {
	if !o.Isolate {
		return nil
	}
	if isolator, ok := mount.As[mount.Isolator](mounter); ok {
		return isolator.Isolate(ctx, path)
	}
	for _, info := range tree {
		if slices.ContainsFunc(info.Tags, func(tag string) bool { return strings.HasPrefix(tag, "shared:") }) {
			return errShared
		}
	}
	return nil
}

var errNoMounter = field.Required(field.NewPath("mounter"), "volumes need a mounter")

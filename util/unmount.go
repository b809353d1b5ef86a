package util

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

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

type unmountOptions struct{ keep bool }

// KeepDirectory leaves the directory, or file, on which the mounts were.
func KeepDirectory() UnmountOption { return func(o *unmountOptions) { o.keep = true } }

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
// are not taken down: they make it busy.
//
// When ctx ends, an error that wraps its cause is returned.
func UnmountMountPoint(ctx context.Context, mounter mount.Interface, path string, options ...UnmountOption) error {
	var o unmountOptions
	for _, option := range options {
		option(&o)
	}
	err := unmountAll(ctx, mounter, path)
	if errors.Is(err, errMissing) {
		return nil
	}
	if err != nil || o.keep {
		return err
	}
	if err := safepath.Rmdir(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mount point: %w", err)
	}
	return nil
}

var errMissing = errors.New("the path is missing")

// mostStacked is how many mounts on one path are taken down before the mounter
// that says it has unmounted them is no longer believed.
const mostStacked = 1 << 16

// unmountAll unmounts until the mount table says that nothing is mounted at path.
func unmountAll(ctx context.Context, mounter mount.Interface, path string) error {
	for range mostStacked {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
		mounted, err := mounter.IsMountPoint(path)
		if errors.Is(err, fs.ErrNotExist) {
			return errMissing
		}
		if err != nil || !mounted {
			return err
		}
		if err := mounter.Unmount(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("unmount %s: still mounted after %d times", path, mostStacked)
}

package table

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"golang.org/x/sys/unix"
)

// errUncached says that a file system would have to look up the path to a mount.
var errUncached = fmt.Errorf("the path of a mount is not cached: %w", errors.ErrUnsupported)

// isVisible reports whether a lookup of a mount's mount point arrives at the mount. If the
// kernel's memory does not hold the whole path, the lookup of a directory above it can still
// show that another mount hides the mount.
func (r mountReader) isVisible(ctx context.Context, id uint64, point string) (bool, error) {
	for dir := point; path.IsAbs(dir); dir = path.Dir(dir) {
		at, err := lookUpMount(dir)
		switch {
		case err == nil && dir == point:
			return at == id, nil
		case err == nil:
			expected, err := r.mountAbove(ctx, id, dir)
			if err == nil && expected == at {
				err = errUncached
			}
			return false, err
		case dir == "/":
			return false, fmt.Errorf("%w: %w", errUncached, err)
		}
	}
	return false, errUncached
}

// mountAbove returns the mount that contains dir, a directory above a mount, among the parents
// of the mount.
func (r mountReader) mountAbove(ctx context.Context, id uint64, dir string) (uint64, error) {
	for {
		f, err := r.read(ctx, id, record.WantMount|record.WantPoint)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, errUncached
		}
		if err != nil {
			return 0, err
		}
		if _, ok := mountinfo.CutDir(string(f.MountPoint()), dir); ok {
			return id, nil
		}
		id = f.Parent
	}
}

// lookUpMount returns the mount that a lookup of a path arrives at, from the kernel's memory
// (Linux 5.12). It retries once: concurrent mounts elsewhere can disturb the lookup.
func lookUpMount(p string) (uint64, error) {
	fd, err := openCached(p)
	if errors.Is(err, unix.EAGAIN) {
		fd, err = openCached(p)
	}
	if err != nil {
		return 0, err
	}
	defer kernel.Close(fd)
	return kernel.UniqueMountID(fd)
}

func openCached(p string) (int, error) {
	return kernel.OpenCached(unix.AT_FDCWD, p, 0, unix.RESOLVE_NO_SYMLINKS)
}

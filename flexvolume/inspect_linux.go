package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// inspect returns the version of the executable at, in the directory sub of the directory dir, if all three are
// root's alone. An access control list that lets others write shows in the group's bits.
func inspect(dir, sub, at string) (version, error) {
	var stat unix.Stat_t
	for _, step := range []struct {
		path  string
		flags int
		kind  uint32
	}{
		{dir, 0, unix.S_IFDIR},
		{path.Join(dir, sub), unix.AT_SYMLINK_NOFOLLOW, unix.S_IFDIR},
		{at, unix.AT_SYMLINK_NOFOLLOW, unix.S_IFREG},
	} {
		err := unix.Fstatat(unix.AT_FDCWD, step.path, &stat, step.flags)
		for errors.Is(err, unix.EINTR) {
			err = unix.Fstatat(unix.AT_FDCWD, step.path, &stat, step.flags)
		}
		failed := func(err error) (version, error) { return version{}, fmt.Errorf("%s: %w", input.Quote(step.path), err) }
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			return failed(fmt.Errorf("%w: %w", ErrNoDriver, err))
		case err != nil:
			return failed(err)
		case stat.Mode&unix.S_IFMT == unix.S_IFLNK:
			return failed(fmt.Errorf("%w: a symbolic link", ErrUntrusted))
		case stat.Mode&unix.S_IFMT != step.kind:
			return failed(fmt.Errorf("%w: mode %#o", ErrNoDriver, stat.Mode))
		case stat.Uid != 0:
			return failed(fmt.Errorf("%w: the owner is user %d", ErrUntrusted, stat.Uid))
		case stat.Mode&0o022 != 0:
			return failed(fmt.Errorf("%w: others may write, mode %#o", ErrUntrusted, stat.Mode&0o7777))
		}
	}
	if stat.Mode&0o111 == 0 {
		return version{}, fmt.Errorf("%s: %w: not executable", input.Quote(at), ErrNoDriver)
	}
	return version{uint64(stat.Dev), stat.Ino, stat.Size, time.Unix(stat.Ctim.Unix())}, nil
}

// isDirectory reports whether a directory is at a path. A symbolic link on the path is an error.
func isDirectory(ctx context.Context, dir string) (bool, error) {
	fd, err := safepath.Open(ctx, unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return false, nil
	case err != nil:
		return false, util.Transient(&fs.PathError{Op: "open", Path: dir, Err: err})
	}
	return true, unix.Close(fd)
}

package local

import (
	"context"
	"io/fs"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// ownersOf returns the owners of a directory.
func ownersOf(dir string) (owners, error) {
	fd, err := safepath.Open(context.Background(), unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	if err != nil {
		return owners{}, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return owners{}, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	var fileSystem unix.Statfs_t
	if err := unix.Fstatfs(fd, &fileSystem); err != nil {
		return owners{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return owners{int64(stat.Gid), stat.Mode, fileSystem.Flags&unix.ST_RDONLY != 0}, nil
}

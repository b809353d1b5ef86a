package local

import (
	"io/fs"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// ownersOf returns the group of a directory, and its mode.
func ownersOf(dir string) (owners, error) {
	fd, err := safepath.Open(unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	if err != nil {
		return owners{}, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return owners{}, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	return owners{int64(stat.Gid), stat.Mode}, nil
}

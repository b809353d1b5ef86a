package fsusage

import (
	"os"

	"golang.org/x/sys/unix"
)

var statfs = func(path string) (Usage, error) {
	var s unix.Statfs_t
	for {
		err := unix.Statfs(path, &s)
		if err == nil {
			return usageOf(&s), nil
		}
		if err != unix.EINTR {
			return Usage{}, &os.PathError{Op: "statfs", Path: path, Err: err}
		}
	}
}

// usageOf counts in fragments, as statvfs(3) does; a file system without them
// leaves the field zero.
func usageOf(s *unix.Statfs_t) Usage {
	size := int64(s.Frsize)
	if size == 0 {
		size = int64(s.Bsize)
	}
	return Usage{
		Capacity:   int64(s.Blocks) * size,
		Used:       int64(s.Blocks-s.Bfree) * size,
		Available:  int64(s.Bavail) * size,
		Inodes:     int64(s.Files),
		InodesUsed: int64(s.Files - s.Ffree),
		InodesFree: int64(s.Ffree),
	}
}

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

const resolveCached = 0x20 // RESOLVE_CACHED of linux/openat2.h

// mountAt returns the number of the mount that path leads to, without asking a file
// system: 0 if the kernel does not know it by heart.
var mountAt = func(path string) uint64 {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolveCached})
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Statx_t
	const asItIs = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(fd, "", asItIs, unix.STATX_MNT_ID, &stat); err != nil || stat.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return stat.Mnt_id
}

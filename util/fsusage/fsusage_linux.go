package fsusage

import (
	"math"
	"math/bits"
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

// usageOf counts in fragments, as statvfs(3) does; a file system without fragments leaves
// the field zero. Some file systems report impossible values, see times and without.
func usageOf(s *unix.Statfs_t) Usage {
	size := uint64(max(s.Frsize, 0))
	if size == 0 {
		size = uint64(max(s.Bsize, 0))
	}
	u := Usage{
		Capacity:   times(s.Blocks, size),
		Used:       times(without(s.Blocks, s.Bfree), size),
		Available:  times(s.Bavail, size),
		Inodes:     times(s.Files, 1),
		InodesUsed: times(without(s.Files, s.Ffree), 1),
		InodesFree: times(s.Ffree, 1),
	}
	if u.Capacity == 0 {
		u.Used, u.Available = 0, 0
	}
	if u.Inodes == 0 {
		u.InodesUsed, u.InodesFree = 0, 0
	}
	return u
}

// notKnown is the value of a field that the file system does not know.
const notKnown = math.MaxUint64

// times returns the product, at most the maximum of int64.
func times(n, size uint64) int64 {
	if n == notKnown {
		return 0
	}
	high, low := bits.Mul64(n, size)
	if high > 0 {
		return math.MaxInt64
	}
	return int64(min(low, math.MaxInt64))
}

// without returns the difference, at least 0, and 0 if free is not known.
func without(all, free uint64) uint64 {
	return all - min(all, free)
}

const resolveCached = 0x20 // RESOLVE_CACHED of linux/openat2.h

// mountAt returns the ID of the mount at path, or 0 if it is not known.
var mountAt = func(path string) uint64 { return cachedAttributes(path, unix.STATX_MNT_ID).Mnt_id }

// nodeAt returns the inode number of the file at path, or 0 if it is not known. A device
// that is removed and added again has another node.
var nodeAt = func(path string) uint64 { return cachedAttributes(path, unix.STATX_INO).Ino }

// cachedAttributes returns cached attributes of the file at path, without a query of the file system.
func cachedAttributes(path string, want uint32) unix.Statx_t {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolveCached})
	if err != nil {
		return unix.Statx_t{}
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Statx_t
	const asItIs = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(fd, "", asItIs, int(want), &stat); err != nil || stat.Mask&want == 0 {
		return unix.Statx_t{}
	}
	return stat
}

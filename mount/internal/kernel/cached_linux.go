package kernel

import (
	"errors"

	"golang.org/x/sys/unix"
)

const resolveCached = 0x20 // RESOLVE_CACHED of linux/openat2.h

// CachedLookupError is the error of each cached lookup, for tests: unix.EINVAL as before Linux 5.12,
// unix.EAGAIN as if no path were in the kernel's memory.
var CachedLookupError error

// cachedTries bounds the attempts of one cached lookup. A concurrent mount or rename makes
// the kernel return EAGAIN, the same error as for a path outside its memory.
const cachedTries = 2

// OpenCached opens a path from the kernel's memory, with O_PATH. [IsUncached] recognizes
// the errors of a path that needs its file system.
func OpenCached(dirfd int, p string, flags int, resolve uint64) (int, error) {
	fd, err := OpenCachedOnce(dirfd, p, flags, resolve)
	for tries := 1; errors.Is(err, unix.EAGAIN) && tries < cachedTries; tries++ {
		fd, err = OpenCachedOnce(dirfd, p, flags, resolve)
	}
	return fd, err
}

// OpenCachedOnce is OpenCached in one attempt, for callers to which it is no loss if a path in
// the kernel's memory is taken as one outside.
func OpenCachedOnce(dirfd int, p string, flags int, resolve uint64) (int, error) {
	if CachedLookupError != nil {
		return -1, CachedLookupError
	}
	if resolve&unix.RESOLVE_NO_SYMLINKS == 0 {
		flags |= unix.O_NOFOLLOW // without RESOLVE_NO_SYMLINKS a link at the end is opened itself
	}
	how := unix.OpenHow{Flags: uint64(unix.O_PATH | unix.O_CLOEXEC | flags), Resolve: resolve | resolveCached}
	return RetryOpen(func() (int, error) { return unix.Openat2(dirfd, p, &how) })
}

// IsUncached reports whether a cached lookup failed for want of the file system, or of the
// call itself: the kernel lacks the call or the flag, or a filter forbids it.
func IsUncached(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
}

// RetryOpen repeats open while it fails with EINTR: a signal can interrupt the system call.
func RetryOpen(open func() (int, error)) (int, error) {
	for {
		if fd, err := open(); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

package beneath

import (
	"errors"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	ToList = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	ToLook = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

	// Quiet makes statx(2) return cached attributes, and wait for no server.
	Quiet = unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC
)

// OpenPath returns an O_PATH descriptor of a directory. The path is absolute; a symbolic
// link in any component is ENOTDIR.
func OpenPath(name string) (int, error) {
	if !HasOpenat2() {
		return walkPath(name)
	}
	fd, err := openPath(name, ToLook)
	if errors.Is(err, unix.ENAMETOOLONG) {
		return walkPath(name)
	}
	return fd, err
}

func openPath(name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_DIRECTORY, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := RetryInterrupted(func() (int, error) { return unix.Openat2(unix.AT_FDCWD, name, &how) })
	if errors.Is(err, unix.ELOOP) {
		err = unix.ENOTDIR
	}
	return fd, err
}

// OpenDirectory is OpenPath for listing.
func OpenDirectory(name string) (int, error) {
	if HasOpenat2() && len(name) < unix.PathMax {
		return openPath(name, ToList)
	}
	at, err := OpenPath(name)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(at) }()
	return OpenSelf(at, ToList)
}

// walkPath is OpenPath component by component: for kernels without openat2, and for paths
// longer than the limit of a system call.
func walkPath(name string) (int, error) {
	at, err := unix.Open("/", ToLook, 0)
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if err != nil {
			return -1, err
		}
		next, stepErr := openAt(at, part, ToLook|unix.O_DIRECTORY)
		_ = unix.Close(at)
		at, err = next, stepErr
	}
	return at, err
}

// OpenRoot is OpenPath for the root of a walk. The root of the file system hierarchy is
// ErrIsTop under any name: a bind mount of it elsewhere has the same content.
func OpenRoot(name string) (int, Place, error) {
	fd, err := OpenPath(name)
	if err != nil {
		return -1, Place{}, err
	}
	at, err := Identify(fd)
	if err == nil {
		err = refuseTop(at)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, Place{}, err
	}
	return fd, at, nil
}

func refuseTop(at Place) error {
	var top unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, "/", Quiet, unix.STATX_INO, &top); err != nil {
		return err
	}
	if top.Ino == at.Inode && unix.Mkdev(top.Dev_major, top.Dev_minor) == at.Device {
		return ErrIsTop
	}
	return nil
}

// Open opens the entry at a relative path below an open directory, with ToList or ToLook.
// Home is the ID of the directory's mount: an entry in another mount is EXDEV. A symbolic
// link on the way is ELOOP or ENOTDIR. With ToList a symbolic link at the end, or an entry
// that is not a directory, is ELOOP or ENOTDIR; with ToLook a link at the end is opened
// itself.
func Open(dir int, name string, flags int, home uint64) (int, error) {
	if HasOpenat2() {
		return openat2(dir, name, flags)
	}
	return walk(dir, name, flags, home)
}

func openat2(dir int, name string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	return RetryInterrupted(func() (int, error) { return unix.Openat2(dir, name, &how) })
}

// walk is openat2 for kernels that lack it. It checks an entry by an O_PATH descriptor
// before it opens the entry for listing, which might wait for another file system. Without
// O_DIRECTORY the O_PATH descriptor triggers no automount either.
func walk(dir int, name string, flags int, home uint64) (int, error) {
	at := dir
	for part := range strings.SplitSeq(name, "/") {
		next, err := step(at, part, home)
		if at != dir {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	if flags == ToLook {
		return at, nil
	}
	defer func() { _ = unix.Close(at) }()
	return OpenSelf(at, flags) // ENOTDIR for other entries than directories
}

func step(dir int, part string, home uint64) (int, error) {
	if part == ".." {
		return -1, unix.EXDEV
	}
	fd, err := openAt(dir, part, ToLook)
	if err != nil {
		return -1, err
	}
	at, err := MountOf(fd)
	if err == nil && at != home {
		err = unix.EXDEV
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// OpenSelf reopens the directory of a descriptor, and no file system that is mounted on it
// later.
func OpenSelf(dir, flags int) (int, error) { return openAt(dir, ".", flags) }

func openAt(dir int, name string, flags int) (int, error) {
	return RetryInterrupted(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
}

// BadName reports whether a name from a file system is invalid: a broken or malicious
// server may return any name.
func BadName(name string) bool {
	return name == "" || name == "." || name == ".." || strings.Contains(name, "/")
}

// RetryInterrupted retries on EINTR and EAGAIN, a bounded number of times. openat2 returns
// EAGAIN if a concurrent rename may have interfered; a file system may return it forever.
func RetryInterrupted(call func() (int, error)) (n int, err error) {
	const tries = 1000
	for range tries {
		n, err = call()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return n, err
}

// IsShortage reports whether an error is a shortage of this process or the machine, which
// says nothing about the file.
func IsShortage(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// WithoutOpenat2 disables newer system calls, for tests of older kernels' paths.
var WithoutOpenat2 bool

// HasOpenat2 reports whether openat2 works: Linux before 5.6 lacks it, and a filter may
// return EPERM.
func HasOpenat2() bool { return !WithoutOpenat2 && probeOpenat2() }

var probeOpenat2 = sync.OnceValue(func() bool {
	fd, err := openat2(unix.AT_FDCWD, ".", ToLook)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
})

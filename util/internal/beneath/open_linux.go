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

	// Quiet asks for what the kernel knows, and waits for no server.
	Quiet = unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC
)

// OpenPath returns an O_PATH descriptor of a directory. The path is absolute; a symbolic
// link anywhere is ENOTDIR. It goes component by component on every kernel: it is done
// once, and not worth two ways.
func OpenPath(name string) (int, error) {
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

// OpenRoot is OpenPath for a directory that all is below. The root of the hierarchy is
// ErrIsTop under whatever name: what is bound elsewhere is the same for whoever needs
// what is in it.
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
	fd, err := unix.Open("/", ToLook, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	top, err := Identify(fd)
	if err == nil && top.Device == at.Device && top.Inode == at.Inode {
		return ErrIsTop
	}
	return err
}

// Open opens what is at a relative path below an open directory, with ToList or ToLook.
// Home is the number of the directory's mount: all else is EXDEV. A symbolic link, on
// the way or at the end, is ELOOP or ENOTDIR, and so is what is no directory, if it is
// to be listed. With ToLook a link at the end is opened itself.
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
	return Again(func() (int, error) { return unix.Openat2(dir, name, &how) })
}

// walk is openat2 for those who lack it. What it has not looked at it does not open:
// that might wait for another file system. Without O_DIRECTORY it sets off no automount
// either.
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
	return OpenSelf(at, flags) // ENOTDIR for what is no directory
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

// OpenSelf opens the directory that a descriptor is of, and nothing that is mounted
// upon it.
func OpenSelf(dir, flags int) (int, error) { return openAt(dir, ".", flags) }

func openAt(dir int, name string, flags int) (int, error) {
	return Again(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
}

// BadName: a file system may say anything.
func BadName(name string) bool {
	return name == "" || name == "." || name == ".." || strings.Contains(name, "/")
}

// Again does what was interrupted once more. EAGAIN is openat2's: a rename elsewhere may
// have interfered. What says so for ever is the file system.
func Again(call func() (int, error)) (n int, err error) {
	const tries = 1000
	for range tries {
		n, err = call()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return n, err
}

// IsShortage reports whether an error is about this process or the machine, and says
// nothing of what was asked.
func IsShortage(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// WithoutOpenat2 makes tests take the way of older kernels.
var WithoutOpenat2 bool

// HasOpenat2: a kernel before 5.6 does not, and a filter may say EPERM.
func HasOpenat2() bool { return !WithoutOpenat2 && probeOpenat2() }

var probeOpenat2 = sync.OnceValue(func() bool {
	fd, err := openat2(unix.AT_FDCWD, ".", ToLook)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
})

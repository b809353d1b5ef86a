package ownership

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	toList = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	toLook = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

	// quiet asks for what the kernel knows, and waits for no server.
	quiet = unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC
)

// A place is a directory in a mount, told from another that has got its inode since.
type place struct {
	identity
	mount uint64
	born  unix.StatxTimestamp
}

// openRoot returns an O_PATH descriptor of a directory. It follows no link, and goes
// component by component on every kernel: it is done once, and not worth two ways.
func openRoot(name string) (int, place, error) {
	top, err := unix.Open("/", toLook, 0)
	if err != nil {
		return -1, place{}, err
	}
	defer func() { _ = unix.Close(top) }()
	fd, err := walkTo(top, strings.Trim(name, "/"))
	if err != nil {
		return -1, place{}, err
	}
	at, err := identify(fd)
	var hierarchy place
	if err == nil {
		hierarchy, err = identify(top)
	}
	if err == nil && at.identity == hierarchy.identity {
		err = errIsTop
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, at, err
}

func walkTo(top int, name string) (int, error) {
	at, err := openSelf(top, toLook)
	for part := range strings.SplitSeq(name, "/") {
		if err != nil {
			return -1, err
		}
		next, stepErr := openAt(at, part, toLook|unix.O_DIRECTORY)
		_ = unix.Close(at)
		at, err = next, stepErr
	}
	return at, err
}

// openIn opens an entry of an open directory, which must be in the same mount: what is
// mounted is EXDEV.
func openIn(dir int, name string, flags int, home place) (int, error) {
	if !hasOpenat2() {
		return openSlowly(dir, name, flags, home)
	}
	how := unix.OpenHow{
		Flags:   uint64(flags),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	return again(func() (int, error) { return unix.Openat2(dir, name, &how) })
}

// openSlowly is openat2 for those who lack it. What it has not looked at it does not
// open: that might wait for another file system. Without O_DIRECTORY it sets off no
// automount either.
func openSlowly(dir int, name string, flags int, home place) (int, error) {
	fd, err := openAt(dir, name, toLook)
	if err != nil {
		return -1, err
	}
	at, err := mountOf(fd)
	if err == nil && at != home.mount {
		err = unix.EXDEV
	}
	if err == nil && flags != toLook {
		self := fd
		defer func() { _ = unix.Close(self) }()
		if err = checkDirectory(fd); err == nil {
			return openSelf(fd, flags)
		}
		return -1, err
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func checkDirectory(fd int) error {
	var x unix.Statx_t
	err := unix.Statx(fd, "", quiet|unix.AT_EMPTY_PATH, unix.STATX_TYPE, &x)
	if err == nil && x.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	return err
}

// openSelf opens the directory that a descriptor is of, and nothing that is mounted
// upon it.
func openSelf(dir, flags int) (int, error) { return openAt(dir, ".", flags) }

func openAt(dir int, name string, flags int) (int, error) {
	return again(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
}

// badName: a file system may say anything.
func badName(name string) bool {
	return name == "" || name == "." || name == ".." || strings.Contains(name, "/")
}

// identify tells where a descriptor is.
func identify(fd int) (place, error) {
	var x unix.Statx_t
	const want = unix.STATX_INO | unix.STATX_BTIME | unix.STATX_MNT_ID
	if err := unix.Statx(fd, "", quiet|unix.AT_EMPTY_PATH, want, &x); err != nil {
		return place{}, err
	}
	at := place{identity: identity{device: unix.Mkdev(x.Dev_major, x.Dev_minor), inode: x.Ino}}
	if x.Mask&unix.STATX_BTIME != 0 {
		at.born = x.Btime
	}
	var err error
	at.mount, err = mountIn(fd, &x)
	return at, err
}

func mountOf(fd int) (uint64, error) {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", quiet|unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &x); err != nil {
		return 0, err
	}
	return mountIn(fd, &x)
}

// mountIn takes the number of the mount from wherever the kernel has it.
func mountIn(fd int, x *unix.Statx_t) (uint64, error) {
	if x.Mask&unix.STATX_MNT_ID != 0 {
		return x.Mnt_id, nil
	}
	return mountByDescriptor(fd)
}

// mountByDescriptor is for kernels before 5.8.
func mountByDescriptor(fd int) (uint64, error) {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if id, ok := bytes.CutPrefix(line, []byte("mnt_id:")); ok {
			return strconv.ParseUint(string(bytes.TrimSpace(id)), 10, 64)
		}
	}
	return 0, fmt.Errorf("the mount of a descriptor: %w", errors.ErrUnsupported)
}

// again does what was interrupted once more.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
	}
}

// withoutNewCalls makes tests take the way of older kernels.
var withoutNewCalls bool

func hasOpenat2() bool { return !withoutNewCalls && probeOpenat2() }

var probeOpenat2 = sync.OnceValue(func() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV,
	})
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
})

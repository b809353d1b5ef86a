package scrub

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
	// quiet asks for what the kernel knows, and waits for no server.
	quiet = unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC

	toList = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	toLook = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// A place is a directory, told from another that has got its inode since.
type place struct {
	Identity
	born unix.StatxTimestamp
}

var errMounted = fmt.Errorf("something is mounted there: %w", unix.EXDEV)

// openRoot returns an O_PATH descriptor.
func openRoot(name string) (int, Identity, error) {
	fd, err := walkTo(name)
	if err != nil {
		return -1, Identity{}, err
	}
	at, err := identify(fd)
	if err == nil {
		err = refuseTop(at)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, Identity{}, err
	}
	return fd, at.Identity, nil
}

// refuseTop: what is bound elsewhere is the same for whoever needs what is in it.
func refuseTop(at place) error {
	fd, err := unix.Open("/", toLook, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	top, err := identify(fd)
	if err == nil && top.Device == at.Device && top.Inode == at.Inode {
		return errIsTop
	}
	return err
}

// walkTo follows no link. It goes component by component on every kernel: it is done
// once, and not worth two ways.
func walkTo(name string) (int, error) {
	at, err := unix.Open("/", toLook, 0)
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if err != nil {
			return -1, err
		}
		next, stepErr := again(func() (int, error) { return unix.Openat(at, part, toLook|unix.O_DIRECTORY, 0) })
		_ = unix.Close(at)
		at, err = next, stepErr
	}
	return at, err
}

// openIn opens an entry of an open directory, to list it. It must be a directory on
// the device and mount that are given: what is mounted is EXDEV, what is no
// directory ENOTDIR or ELOOP.
func openIn(dir int, name string, home Identity) (int, place, error) {
	open := openat2
	if !hasOpenat2() {
		open = openSlowly
	}
	fd, err := open(dir, name, home)
	if errors.Is(err, unix.EXDEV) {
		return -1, place{}, errMounted
	}
	if err != nil {
		return -1, place{}, err
	}
	at, err := confirm(fd, home)
	return fd, at, err
}

// confirm closes a descriptor that is not where it should be.
func confirm(fd int, home Identity) (place, error) {
	at, err := identify(fd)
	if err == nil && (at.Device != home.Device || at.Mount != home.Mount) {
		err = errMounted
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return at, err
}

func openat2(dir int, name string, _ Identity) (int, error) {
	how := unix.OpenHow{
		Flags:   toList,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	return again(func() (int, error) { return unix.Openat2(dir, name, &how) })
}

// openSlowly is openat2 for those who lack it. What it has not looked at it does not
// open: that might wait for another file system. Without O_DIRECTORY it sets off no
// automount either.
func openSlowly(dir int, name string, home Identity) (int, error) {
	if badName(name) != "" {
		return -1, unix.EINVAL
	}
	fd, err := again(func() (int, error) { return unix.Openat(dir, name, toLook, 0) })
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(fd) }()
	kind, err := kindOf(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, err
	}
	at, err := identify(fd)
	switch {
	case err != nil:
		return -1, err
	case at.Device != home.Device || at.Mount != home.Mount:
		return -1, unix.EXDEV
	case kind != unix.DT_DIR:
		return -1, unix.ENOTDIR
	}
	return openSelf(fd)
}

// openSelf opens the directory that a descriptor is of, and nothing that is mounted
// upon it.
func openSelf(dir int) (int, error) {
	return again(func() (int, error) { return unix.Openat(dir, ".", toList, 0) })
}

// identify takes the number of the mount from wherever the kernel has it.
func identify(fd int) (place, error) {
	var x unix.Statx_t
	const want = unix.STATX_INO | unix.STATX_BTIME | unix.STATX_MNT_ID
	if err := unix.Statx(fd, "", quiet|unix.AT_EMPTY_PATH, want, &x); err != nil {
		return place{}, err
	}
	at := place{Identity: Identity{Device: unix.Mkdev(x.Dev_major, x.Dev_minor), Inode: x.Ino, Mount: x.Mnt_id}}
	if x.Mask&unix.STATX_BTIME != 0 {
		at.born = x.Btime
	}
	var err error
	if x.Mask&unix.STATX_MNT_ID == 0 {
		at.Mount, err = mountByDescriptor(fd)
	}
	return at, err
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

// kindOf returns what getdents calls the type.
func kindOf(dir int, name string, flags int) (uint8, error) {
	var x unix.Statx_t
	err := unix.Statx(dir, name, quiet|flags, unix.STATX_TYPE, &x)
	return uint8(x.Mode & unix.S_IFMT >> 12), err
}

// mostTries is more than any interruption takes: what goes on is a file system that
// always says so.
const mostTries = 1000

// again does what was interrupted once more.
func again(call func() (int, error)) (n int, err error) {
	for range mostTries {
		n, err = call()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return n, err
}

// withoutOpenat2 makes tests take the way of older kernels.
var withoutOpenat2 bool

func hasOpenat2() bool { return !withoutOpenat2 && probeOpenat2() }

var probeOpenat2 = sync.OnceValue(func() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV,
	})
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
})

func closeDir(fd int) error { return unix.Close(fd) }

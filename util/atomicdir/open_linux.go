package atomicdir

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	toList = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	toLook = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// A place is a directory's device, inode and mount.
type place struct{ device, inode, mount uint64 }

// openRoot opens an absolute path that has no symbolic link.
func openRoot(name string) (int, error) {
	at, err := unix.Open("/", toLook, 0)
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if err != nil {
			return -1, err
		}
		next, stepErr := again(func() (int, error) { return unix.Openat(at, part, toLook|unix.O_DIRECTORY, 0) })
		_ = unix.Close(at)
		at, err = next, stepErr
	}
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(at) }()
	return again(func() (int, error) { return unix.Openat(at, ".", toList, 0) })
}

// enter opens what is at a relative path below an open directory, in the same mount.
// No symbolic link is followed, neither on the way nor at the end. Flags are toList or
// toLook.
func enter(dir int, name string, flags int) (int, error) {
	if name == "" {
		name = "."
	}
	if hasOpenat2() {
		return openat2(dir, name, flags)
	}
	return walk(dir, name, flags)
}

func openat2(dir int, name string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	return again(func() (int, error) { return unix.Openat2(dir, name, &how) })
}

// walk is openat2 for those who lack it. What it has not looked at it does not open.
func walk(dir int, name string, flags int) (int, error) {
	home, err := identify(dir)
	if err != nil {
		return -1, err
	}
	at, err := unix.Openat(dir, ".", toLook, 0)
	for part := range strings.SplitSeq(name, "/") {
		if err != nil {
			return -1, err
		}
		next, stepErr := again(func() (int, error) { return unix.Openat(at, part, toLook, 0) })
		_ = unix.Close(at)
		if at, err = next, stepErr; err == nil {
			err = home.allows(at)
		}
		if err != nil && at >= 0 {
			_ = unix.Close(at)
		}
	}
	if err != nil || flags == toLook {
		return at, err
	}
	defer func() { _ = unix.Close(at) }()
	// A symbolic link is ENOTDIR here, as is all that is no directory.
	return again(func() (int, error) { return unix.Openat(at, ".", toList, 0) })
}

// allows refuses what is in another mount.
func (home place) allows(fd int) error {
	at, err := identify(fd)
	if err == nil && (at.mount != home.mount || at.device != home.device) {
		err = unix.EXDEV
	}
	return err
}

func identify(fd int) (place, error) {
	var x unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(fd, "", flags, unix.STATX_INO|unix.STATX_MNT_ID, &x); err != nil {
		return place{}, err
	}
	at := place{device: unix.Mkdev(x.Dev_major, x.Dev_minor), inode: x.Ino, mount: x.Mnt_id}
	var err error
	if x.Mask&unix.STATX_MNT_ID == 0 {
		at.mount, err = mountByDescriptor(fd)
	}
	return at, err
}

// mountByDescriptor is for kernels before 5.8.
func mountByDescriptor(fd int) (uint64, error) {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.ParseUint(strings.TrimSpace(id), 10, 64)
		}
	}
	return 0, unix.EOPNOTSUPP
}

// linkAt returns where a symbolic link leads, and "" for what is none.
func linkAt(dir int, name string) string {
	buf := make([]byte, maxName)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// again does what was interrupted once more. EAGAIN is openat2's: a rename elsewhere
// may have interfered.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
	}
}

// withoutOpenat2 makes tests take the way of older kernels.
var withoutOpenat2 bool

func hasOpenat2() bool { return !withoutOpenat2 && probeOpenat2() }

var probeOpenat2 = sync.OnceValue(func() bool {
	fd, err := openat2(unix.AT_FDCWD, ".", toLook)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
})

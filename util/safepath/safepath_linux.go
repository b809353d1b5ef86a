package safepath

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Open returns an O_PATH descriptor of what is at name, relative to dirfd (or
// absolute, with unix.AT_FDCWD). No symbolic link is followed, neither on the way
// nor at the end: each is ELOOP. Flags may add O_DIRECTORY.
//
// Nothing is asked of the file system at name itself, so a dead server there
// does not hold it up; one that serves a parent does.
func Open(dirfd int, name string, flags int) (int, error) {
	if !hasOpenat2() {
		return walk(dirfd, name, flags)
	}
	return openat2(dirfd, name, flags)
}

// OpenParent opens the directory that holds name, which is absolute, and returns
// it with name's last component.
func OpenParent(name string) (fd int, base string, err error) {
	dir, base := path.Split(path.Clean(name))
	fd, err = Open(unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	return fd, base, err
}

// openat2 follows no symbolic link.
func openat2(dirfd int, name string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(unix.O_PATH | unix.O_CLOEXEC | flags), Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(dirfd, name, &how)
		// EAGAIN: a rename elsewhere interfered with the look at "..", or may have.
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

// walk is openat2 for kernels before 5.6.
func walk(dirfd int, name string, flags int) (int, error) {
	if path.IsAbs(name) {
		root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		defer func() { _ = unix.Close(root) }()
		dirfd = root
	}
	at, err := step(dirfd, ".", unix.O_DIRECTORY)
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
	for i, part := range parts {
		if err != nil {
			return -1, err
		}
		wants := unix.O_DIRECTORY
		if i == len(parts)-1 {
			wants = flags
		}
		next, stepErr := step(at, part, wants)
		_ = unix.Close(at)
		at, err = next, stepErr
	}
	return at, err
}

// step opens one component. A symbolic link is ELOOP; O_DIRECTORY, the one flag
// that there is, would make it ENOTDIR.
func step(dirfd int, part string, flags int) (int, error) {
	fd, err := unix.Openat(dirfd, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := checkType(fd, flags&unix.O_DIRECTORY != 0); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// checkType asks for no more than the kernel remembers: unlike fstat, it does not
// wait for a server.
func checkType(fd int, wantDir bool) error {
	var x unix.Statx_t
	const quiet = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(fd, "", quiet, unix.STATX_TYPE, &x); err != nil {
		return err
	}
	switch kind := x.Mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK:
		return unix.ELOOP
	case wantDir && kind != unix.S_IFDIR:
		return unix.ENOTDIR
	}
	return nil
}

// withoutOpenat2 makes tests take the way of older kernels.
var withoutOpenat2 bool

func hasOpenat2() bool { return !withoutOpenat2 && probeOpenat2() }

var probeOpenat2 = sync.OnceValue(func() bool {
	fd, err := openat2(unix.AT_FDCWD, "/", unix.O_DIRECTORY)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
})

// mkdirAll returns how many of the parts were there already, counted from the
// root, also along with an error.
func mkdirAll(root string, parts []string, perm fs.FileMode) (found int, err error) {
	rootfd, err := Open(unix.AT_FDCWD, root, unix.O_DIRECTORY)
	if err != nil {
		return len(parts), err
	}
	defer func() { _ = unix.Close(rootfd) }()
	last, at := len(parts)-1, rootfd
	// Mostly the parents are there: one look instead of one for each.
	if last > 0 {
		parent, err := Open(rootfd, strings.Join(parts[:last], "/"), unix.O_DIRECTORY)
		if errors.Is(err, fs.ErrNotExist) {
			return mkdirEach(rootfd, parts, perm)
		}
		if err != nil {
			return len(parts), err
		}
		defer func() { _ = unix.Close(parent) }()
		at = parent
	}
	created, err := mkdirAt(at, parts[last], perm)
	if created {
		return last, err
	}
	return len(parts), err
}

// mkdirEach creates what is missing of the parts, one after the other.
func mkdirEach(rootfd int, parts []string, perm fs.FileMode) (found int, err error) {
	found = len(parts)
	at, err := Open(rootfd, ".", unix.O_DIRECTORY)
	for i, part := range parts {
		if err != nil {
			return found, err
		}
		var created bool
		next := -1
		if created, err = mkdirAt(at, part, perm); created {
			found = min(found, i)
		}
		if err == nil {
			next, err = Open(at, part, unix.O_DIRECTORY)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errRemoved
		}
		_ = unix.Close(at)
		at = next
	}
	if at >= 0 {
		_ = unix.Close(at)
	}
	return found, err
}

// mkdirAt creates one directory, or finds one there. What else may stand there
// is for the next to open it to refuse.
func mkdirAt(dirfd int, part string, perm fs.FileMode) (created bool, err error) {
	switch err := unix.Mkdirat(dirfd, part, uint32(perm.Perm())); {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.ENOENT):
		return false, errRemoved
	case !errors.Is(err, unix.EEXIST):
		return false, err
	}
	return false, isDir(dirfd, part)
}

// isDir fails unless a directory, or something mounted, is at part. It does not
// look at a mounted file system itself.
func isDir(dirfd int, part string) error {
	fd, err := Open(dirfd, part, unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return errRemoved
	}
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func rmdir(name string) error {
	parent, base, err := OpenParent(name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	return unix.Unlinkat(parent, base, unix.AT_REMOVEDIR)
}

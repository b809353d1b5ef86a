package safepath

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"golang.org/x/sys/unix"
)

// Open returns an O_PATH descriptor of the entry at name, relative to dirfd (or absolute,
// with unix.AT_FDCWD). It follows no symbolic link, neither on the way nor at the end: each
// is ELOOP. Flags may add O_DIRECTORY.
//
// Open does not query the file system at name itself, so a dead server of that file system
// does not block it; a dead server of a parent does, until ctx ends.
func Open(ctx context.Context, dirfd int, name string, flags int) (int, error) {
	if ctx.Done() == nil {
		return open(dirfd, name, flags)
	}
	from := dirfd
	if dirfd >= 0 { // the caller may close dirfd while the call continues
		var err error
		if from, err = unix.FcntlInt(uintptr(dirfd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return -1, err
		}
	}
	work := func() (int, error) {
		if from != dirfd {
			defer func() { _ = unix.Close(from) }()
		}
		return open(from, name, flags)
	}
	fd, began, err := keylock.Await(ctx, calls.Key("open\x00"+name), ctxend.Kernel, work, func(fd int, err error) {
		if err == nil {
			_ = unix.Close(fd)
		}
	})
	if !began && from != dirfd {
		_ = unix.Close(from)
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}

func open(dirfd int, name string, flags int) (int, error) {
	if !hasOpenat2() {
		return walk(dirfd, name, flags)
	}
	return openat2(dirfd, name, flags)
}

// OpenParent opens the parent directory of name, an absolute path, and returns it with
// name's last component.
func OpenParent(ctx context.Context, name string) (fd int, base string, err error) {
	defer brief.Shorten(&err)
	dir, base := path.Split(path.Clean(name))
	fd, err = Open(ctx, unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	return fd, base, err
}

// openat2 follows no symbolic link.
func openat2(dirfd int, name string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(unix.O_PATH | unix.O_CLOEXEC | flags), Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(dirfd, name, &how)
		// EAGAIN: a concurrent rename may have interfered with resolving "..".
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

// step opens one component. A symbolic link is ELOOP. O_DIRECTORY, the only flag, is checked
// afterwards, as it would turn ELOOP into ENOTDIR.
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

// checkType reads only cached attributes: unlike fstat, it does not wait for a server.
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

// withoutOpenat2 disables openat2, for tests of older kernels' paths.
var withoutOpenat2 bool

func hasOpenat2() bool { return !withoutOpenat2 && probeOpenat2() }

var probeOpenat2 = sync.OnceValue(func() bool {
	fd, err := openat2(unix.AT_FDCWD, "/", unix.O_DIRECTORY)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
})

// mkdirAll creates the missing directories. It returns the number of parts that existed
// already, counted from the root, also along with an error.
func mkdirAll(root string, parts []string, perm fs.FileMode) (found int, err error) {
	at, depth, err := openDeepest(root, parts[:len(parts)-1])
	if err != nil {
		return len(parts), err
	}
	found = len(parts)
	for i := depth; i < len(parts) && err == nil; i++ {
		var created bool
		next := -1
		if i < len(parts)-1 {
			created, next, err = enterAt(at, parts[i], perm)
		} else {
			created, err = mkdirAt(at, parts[i], perm)
		}
		if created {
			found = min(found, i)
		}
		_ = unix.Close(at)
		at = next
	}
	if at >= 0 {
		_ = unix.Close(at)
	}
	return found, err
}

// openDeepest opens the deepest existing directory on the way from root to the last part,
// and returns the number of parts to it. Mostly all exist, and one system call opens the
// last.
func openDeepest(root string, parts []string) (fd, depth int, err error) {
	for depth = len(parts); ; depth-- {
		fd, err = open(unix.AT_FDCWD, path.Join(root, path.Join(parts[:depth]...)), unix.O_DIRECTORY)
		if depth == 0 || !errors.Is(err, fs.ErrNotExist) {
			return fd, depth, err
		}
	}
}

// enterAt opens a directory, and creates it if it does not exist.
func enterAt(dirfd int, part string, perm fs.FileMode) (created bool, fd int, err error) {
	err = unix.Mkdirat(dirfd, part, uint32(perm.Perm()))
	created = err == nil
	if created || errors.Is(err, unix.EEXIST) {
		fd, err = open(dirfd, part, unix.O_DIRECTORY)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return created, -1, errRemoved
	case err != nil:
		return created, -1, err
	}
	return created, fd, nil
}

// mkdirAt creates a directory if it does not exist. Another type of entry is an error.
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

// isDir returns an error unless part is a directory or a mount point. It does not query a
// mounted file system.
func isDir(dirfd int, part string) error {
	fd, err := open(dirfd, part, unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return errRemoved
	}
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func rmdir(name string) error {
	parent, base, err := OpenParent(context.Background(), name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	return unix.Unlinkat(parent, base, unix.AT_REMOVEDIR)
}

package mount

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// A lookup follows paths without waiting longer than its context allows, whatever
// the file systems on the way do.
//
// What the kernel has in memory is opened at once (RESOLVE_CACHED, Linux 5.12).
// What it would have to ask a file system for is asked for component by component,
// each in a goroutine of its own, and in one for each mount at a time: however
// often a dead server's directories are looked at, one call waits for it.
type lookup struct {
	m   *Mounter
	ctx context.Context
	// followLinks follows symbolic links on the way, but never the last component.
	followLinks bool
}

// mostLinks is how many symbolic links are followed on the way, as in Linux.
const mostLinks = 40

// parent opens the directory that p, which is absolute, is in, and returns it
// with the last component. Of "/" it is "/" and ".".
func (l lookup) parent(p string) (fd int, name string, err error) {
	dir, name := path.Split(path.Clean(p))
	if name == "" {
		name = "."
	}
	fd, err = l.open(dir, unix.O_DIRECTORY)
	return fd, name, err
}

// open opens what is at p, which is absolute.
func (l lookup) open(p string, flags int) (int, error) {
	if l.ctx.Done() == nil {
		return l.openWaiting(p, flags)
	}
	if err := l.ctx.Err(); err != nil {
		return -1, ctxend.Error(l.ctx)
	}
	fd, err := openCached(unix.AT_FDCWD, p, flags, l.resolve())
	if !mustAsk(err) {
		return fd, err
	}
	return l.openStepwise(p, flags)
}

func (l lookup) resolve() uint64 {
	if l.followLinks {
		return 0
	}
	return unix.RESOLVE_NO_SYMLINKS
}

// openWaiting is for a caller who has nothing else to do.
func (l lookup) openWaiting(p string, flags int) (int, error) {
	if !l.followLinks {
		return safepath.Open(unix.AT_FDCWD, p, flags)
	}
	return openAgain(func() (int, error) {
		return unix.Open(p, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
	})
}

// child opens what is at name in the directory, whatever is mounted there, and
// never follows a link: without followLinks one is ELOOP.
func (l lookup) child(parent int, name string) (int, error) {
	if l.ctx.Done() == nil {
		return l.openChild(parent, name)
	}
	fd, err := openCached(parent, name, 0, l.resolve())
	if !mustAsk(err) {
		return fd, err
	}
	dir, err := unix.FcntlInt(uintptr(parent), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	found, err := l.ask(dir, name, 0)
	if err != nil {
		return -1, err
	}
	closeFD(found.dir)
	if found.link != "" && !l.followLinks {
		closeFD(found.fd)
		return -1, unix.ELOOP
	}
	return found.fd, nil
}

func (l lookup) openChild(parent int, name string) (int, error) {
	if !l.followLinks {
		return safepath.Open(parent, name, 0)
	}
	return openAgain(func() (int, error) {
		return unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

const resolveCached = 0x20 // RESOLVE_CACHED of linux/openat2.h

// withoutCachedLookups makes tests ask for every component, as kernels before
// 5.12 have to.
var withoutCachedLookups bool

// openCached opens what can be opened without asking a file system.
func openCached(dirfd int, p string, flags int, resolve uint64) (int, error) {
	if withoutCachedLookups {
		return -1, unix.EAGAIN
	}
	if resolve&unix.RESOLVE_NO_SYMLINKS == 0 {
		flags |= unix.O_NOFOLLOW // or else a link at the end is ELOOP
	}
	how := unix.OpenHow{Flags: uint64(unix.O_PATH | unix.O_CLOEXEC | flags), Resolve: resolve | resolveCached}
	return openAgain(func() (int, error) { return unix.Openat2(dirfd, p, &how) })
}

// mustAsk reports whether the kernel would have to ask a file system, or cannot
// say: it lacks the call or the flag, or a filter forbids it.
func mustAsk(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
}

func openAgain(open func() (int, error)) (int, error) {
	for {
		if fd, err := open(); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// openStepwise opens one component after the other.
func (l lookup) openStepwise(p string, flags int) (int, error) {
	at, err := openRoot()
	if err != nil {
		return -1, err
	}
	rest, links := strings.TrimLeft(p, "/"), 0
	for rest != "" {
		part, more, _ := strings.Cut(rest, "/")
		rest = strings.TrimLeft(more, "/")
		if part == "" || part == "." {
			continue
		}
		kind := flags & unix.O_DIRECTORY
		if rest != "" {
			kind = unix.O_DIRECTORY
		}
		found, err := l.step(at, part, kind) // it closes at
		if err != nil {
			return -1, err
		}
		last := rest == "" && flags&unix.O_DIRECTORY == 0
		if found.link == "" || last && l.followLinks {
			closeFD(found.dir)
			at = found.fd
			continue
		}
		if links++; !l.followLinks || links > mostLinks {
			closeFD(found.fd, found.dir)
			return -1, unix.ELOOP
		}
		closeFD(found.fd)
		at, rest = found.dir, strings.TrimLeft(found.link+"/"+rest, "/")
		if path.IsAbs(found.link) {
			closeFD(at)
			if at, err = openRoot(); err != nil {
				return -1, err
			}
		}
	}
	return at, l.checkKind(at, flags)
}

// checkKind closes fd if it is not of the kind that the flags ask for.
func (l lookup) checkKind(fd, flags int) error {
	if flags&unix.O_DIRECTORY == 0 {
		return nil
	}
	id, err := identify(fd)
	if err == nil && !id.dir {
		err = unix.ENOTDIR
	}
	if err != nil {
		closeFD(fd)
	}
	return err
}

func openRoot() (int, error) {
	return openAgain(func() (int, error) {
		return unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
}

// found is what a component leads to.
type found struct {
	fd   int
	link string // what it says, if it is a symbolic link
	dir  int    // the directory that the link is in; -1 if it is none
}

// step opens a component of a directory, which it closes unless the component is
// a link.
func (l lookup) step(dir int, part string, kind int) (found, error) {
	fd, err := openCached(dir, part, 0, unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		closeFD(dir)
		return found{fd: fd, dir: -1}, nil
	}
	if !mustAsk(err) && !errors.Is(err, unix.ELOOP) {
		closeFD(dir)
		return found{}, err
	}
	return l.ask(dir, part, kind)
}

// ask opens a component in a goroutine, one at a time for the mount that the
// directory is in. It takes over the directory's descriptor.
func (l lookup) ask(dir int, part string, kind int) (found, error) {
	id, err := identify(dir)
	if err != nil {
		closeFD(dir)
		return found{fd: -1}, err
	}
	unlock, err := l.m.asking.Lock(l.ctx, fmt.Sprint(id.mount))
	if err != nil {
		closeFD(dir)
		return found{fd: -1}, ctxend.Error(l.ctx)
	}
	return await(l.ctx, func() (found, error) {
		defer unlock()
		return askNow(dir, part, kind, l.followLinks)
	}, func(late found, err error) {
		if err == nil {
			closeFD(late.fd, late.dir)
		}
	})
}

// askNow opens a component. What is to be mounted when it is used as a directory is
// mounted then (automounts), but not for the last component.
func askNow(dir int, part string, kind int, follow bool) (found, error) {
	fd, err := openPart(dir, part, kind)
	if kind != 0 && (errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) {
		fd, err = openPart(dir, part, 0) // a link
	}
	if err != nil {
		closeFD(dir)
		return found{fd: -1}, err
	}
	link, err := readLink(fd)
	if err != nil {
		closeFD(fd, dir)
		return found{fd: -1}, err
	}
	if link == "" {
		closeFD(dir)
		return found{fd: fd, dir: -1}, nil
	}
	if follow && kind != 0 && isProc(dir) {
		closeFD(fd)
		fd, err = followInProc(dir, part, kind)
		closeFD(dir)
		return found{fd: fd, dir: -1}, err
	}
	return found{fd: fd, link: link, dir: dir}, nil
}

// isProc reports whether a directory is one of proc(5), whose links lead to things
// and not to what they say.
func isProc(dir int) bool {
	var x unix.Statfs_t
	return unix.Fstatfs(dir, &x) == nil && x.Type == unix.PROC_SUPER_MAGIC
}

func followInProc(dir int, part string, kind int) (int, error) {
	return openAgain(func() (int, error) {
		return unix.Openat(dir, part, unix.O_PATH|unix.O_CLOEXEC|kind, 0)
	})
}

func openPart(dir int, part string, kind int) (int, error) {
	return openAgain(func() (int, error) {
		return unix.Openat(dir, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC|kind, 0)
	})
}

// readLink returns what the symbolic link says that fd is, or nothing if it is
// none.
func readLink(fd int) (string, error) {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|quiet, unix.STATX_TYPE, &x); err != nil || x.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", err
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", text)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(text[:max(n, 0)]), err
}

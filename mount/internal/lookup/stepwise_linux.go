package lookup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// maxLinks bounds the symbolic links in one path, as in Linux.
const maxLinks = 40

// openStepwise opens a path component by component.
func (l Lookup) openStepwise(ctx context.Context, p string, flags int) (int, error) {
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
		found, err := l.step(ctx, at, part, kind) // it closes at
		if err != nil {
			return -1, err
		}
		last := rest == "" && flags&unix.O_DIRECTORY == 0
		if found.link == "" || last && l.follow {
			kernel.Close(found.dir)
			at = found.fd
			continue
		}
		if links++; !l.follow || links > maxLinks {
			kernel.Close(found.fd, found.dir)
			return -1, l.explain(unix.ELOOP)
		}
		kernel.Close(found.fd)
		at, rest = found.dir, strings.TrimLeft(found.link+"/"+rest, "/")
		if path.IsAbs(found.link) {
			kernel.Close(at)
			if at, err = openRoot(); err != nil {
				return -1, err
			}
		}
	}
	return at, l.checkKind(at, flags)
}

// checkKind closes fd and fails if the flags require a directory and it is none.
func (l Lookup) checkKind(fd, flags int) error {
	if flags&unix.O_DIRECTORY == 0 {
		return nil
	}
	id, err := kernel.Identify(fd)
	if err == nil && !id.Dir {
		err = unix.ENOTDIR
	}
	if err != nil {
		kernel.Close(fd)
	}
	return err
}

func openRoot() (int, error) {
	return kernel.RetryOpen(func() (int, error) {
		return unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
}

// found is the result of a step.
type found struct {
	fd   int
	link string // content of a symbolic link
	dir  int    // directory of a symbolic link, else -1
}

// step opens a component of a directory. It closes the directory unless the component is a
// symbolic link.
func (l Lookup) step(ctx context.Context, dir int, part string, kind int) (found, error) {
	fd, err := kernel.OpenCached(dir, part, 0, unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		kernel.Close(dir)
		return found{fd: fd, dir: -1}, nil
	}
	if !kernel.IsUncached(err) && !errors.Is(err, unix.ELOOP) {
		kernel.Close(dir)
		return found{}, err
	}
	return l.stepWaiting(ctx, dir, part, kind)
}

// stepWaiting is step in a goroutine, one at a time for the directory's mount. It owns the
// directory's descriptor.
func (l Lookup) stepWaiting(ctx context.Context, dir int, part string, kind int) (found, error) {
	id, err := kernel.Identify(dir)
	if err != nil {
		kernel.Close(dir)
		return found{fd: -1}, err
	}
	unlock, err := l.resolver.waiting.Lock(ctx, fmt.Sprint(id.Mount))
	if err != nil {
		kernel.Close(dir)
		return found{fd: -1}, ctxend.Error(ctx)
	}
	return ctxend.Await(ctx, ctxend.Kernel, func() (found, error) {
		defer unlock()
		return openComponent(dir, part, kind, l.follow)
	}, func(late found, err error) {
		if err == nil {
			kernel.Close(late.fd, late.dir)
		}
	})
}

// openComponent opens a component and reads it if it is a symbolic link. O_DIRECTORY as the
// kind triggers an automount; the last component has no kind.
func openComponent(dir int, part string, kind int, follow bool) (found, error) {
	fd, err := openPart(dir, part, kind)
	if kind != 0 && (errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) {
		fd, err = openPart(dir, part, 0) // a link
	}
	if err != nil {
		kernel.Close(dir)
		return found{fd: -1}, err
	}
	link, err := kernel.ReadLink(fd)
	if err != nil {
		kernel.Close(fd, dir)
		return found{fd: -1}, err
	}
	if link == "" {
		kernel.Close(dir)
		return found{fd: fd, dir: -1}, nil
	}
	if follow && kind != 0 && isProc(dir) {
		kernel.Close(fd)
		fd, err = followInProc(dir, part, kind)
		kernel.Close(dir)
		return found{fd: fd, dir: -1}, err
	}
	return found{fd: fd, link: link, dir: dir}, nil
}

// isProc reports whether a directory belongs to proc(5), whose links lead to objects and
// not to the paths in their content.
func isProc(dir int) bool {
	var x unix.Statfs_t
	return unix.Fstatfs(dir, &x) == nil && x.Type == unix.PROC_SUPER_MAGIC
}

func followInProc(dir int, part string, kind int) (int, error) {
	return kernel.RetryOpen(func() (int, error) {
		return unix.Openat(dir, part, unix.O_PATH|unix.O_CLOEXEC|kind, 0)
	})
}

// openPart opens a component of a directory with O_PATH, without following it. It may wait
// for the file system. kind is O_DIRECTORY or 0.
func openPart(dir int, part string, kind int) (int, error) {
	return kernel.RetryOpen(func() (int, error) {
		return unix.Openat(dir, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC|kind, 0)
	})
}

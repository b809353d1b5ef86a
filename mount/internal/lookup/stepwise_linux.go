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
		found, err := l.step(ctx, at, component{name: part, kind: kind}) // it closes at
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
	if flags&unix.O_DIRECTORY == 0 {
		return at, nil
	}
	id, err := kernel.Identify(at)
	if err == nil && !id.Dir {
		err = unix.ENOTDIR
	}
	if err != nil {
		kernel.Close(at)
		return -1, err
	}
	return at, nil
}

func openRoot() (int, error) {
	return kernel.RetryOpen(func() (int, error) {
		return unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
}

// A component is a name in a path.
type component struct {
	name string
	kind int // O_DIRECTORY triggers an automount; the last component has no kind
}

// found is the result of a step.
type found struct {
	fd   int
	link string // content of a symbolic link
	dir  int    // directory of a symbolic link, else -1
}

var noneFound = found{fd: -1, dir: -1}

// step opens a component of a directory. It closes the directory unless the component is a
// symbolic link.
func (l Lookup) step(ctx context.Context, dir int, c component) (found, error) {
	fd, err := kernel.OpenCached(dir, c.name, 0, unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		kernel.Close(dir)
		return found{fd: fd, dir: -1}, nil
	}
	if !kernel.IsUncached(err) && !errors.Is(err, unix.ELOOP) {
		kernel.Close(dir)
		return noneFound, err
	}
	return l.stepUncached(ctx, dir, c)
}

// stepUncached is step for a component that the kernel does not have in memory. A mount in a local file
// system is entered by a wait of its own: its server may not answer, while others use the directory.
func (l Lookup) stepUncached(ctx context.Context, dir int, c component) (found, error) {
	id, err := kernel.Identify(dir)
	if err != nil {
		kernel.Close(dir)
		return noneFound, err
	}
	outside, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		kernel.Close(dir)
		return noneFound, err
	}
	at, err := l.await(ctx, fmt.Sprint(id.Mount), outside, func() (found, error) { return c.open(ctx, outside, l.follow, false) })
	if !errors.Is(err, errMountPoint) {
		kernel.Close(dir)
		return at, err
	}
	fd, err := l.enterCached(ctx, dir, c.name)
	if !kernel.IsUncached(err) {
		kernel.Close(dir)
		return found{fd: fd, dir: -1}, err
	}
	key := fmt.Sprint(id.Mount, " ", id.Inode, " ", c.name)
	return l.await(ctx, key, dir, func() (found, error) { return c.open(ctx, dir, l.follow, true) })
}

// await makes a step in a goroutine, one at a time for a key. The step owns the directory's descriptor.
func (l Lookup) await(ctx context.Context, key string, dir int, step func() (found, error)) (found, error) {
	unlock, err := l.resolver.waiting.Lock(ctx, key)
	if err != nil {
		kernel.Close(dir)
		return noneFound, ctxend.Error(ctx)
	}
	return ctxend.Await(ctx, ctxend.Kernel, func() (found, error) {
		defer unlock()
		return step()
	}, func(late found, err error) {
		if err == nil {
			kernel.Close(late.fd, late.dir)
		}
	})
}

// open opens the component and reads it if it is a symbolic link. It closes the directory unless it
// returns it. A mount in a local file system is errMountPoint unless mayEnter.
func (c component) open(ctx context.Context, dir int, follow, mayEnter bool) (found, error) {
	fd, err := c.openFile(dir, mayEnter)
	if errors.Is(err, unix.ESTALE) {
		fd, err = reopen(ctx, dir, c.name)
	}
	if err != nil {
		kernel.Close(dir)
		return noneFound, err
	}
	link, err := kernel.ReadLink(fd)
	if err != nil {
		kernel.Close(fd, dir)
		return noneFound, err
	}
	if link == "" {
		kernel.Close(dir)
		return found{fd: fd, dir: -1}, nil
	}
	if follow && c.kind != 0 && isProc(dir) {
		kernel.Close(fd)
		fd, err = followInProc(dir, c.name, c.kind)
		kernel.Close(dir)
		return found{fd: fd, dir: -1}, err
	}
	return found{fd: fd, link: link, dir: dir}, nil
}

// openFile opens the component, or a link itself. Other file systems than local ones have automounts.
func (c component) openFile(dir int, mayEnter bool) (int, error) {
	if !mayEnter && isLocal(dir) {
		if fd, err := openInMount(dir, c.name); !kernel.IsUncached(err) { // the kernel has openat2(2)
			return fd, err
		}
	}
	fd, err := openPart(dir, c.name, c.kind)
	if c.kind != 0 && (errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) {
		return openPart(dir, c.name, 0) // a link
	}
	return fd, err
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

package lookup

import (
	"context"
	"errors"
	"path"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// A Lookup opens paths by one rule for symbolic links. Its methods return soon after the end of
// their context.
type Lookup struct {
	resolver *Resolver
	follow   bool
}

// FollowingLinks returns a lookup that follows the symbolic links on the way, but not one
// in the last component.
func (r *Resolver) FollowingLinks() Lookup { return Lookup{resolver: r, follow: true} }

// WithoutLinks returns a lookup to which each symbolic link is [failure.ErrLink].
func (r *Resolver) WithoutLinks() Lookup { return Lookup{resolver: r} }

// OpenParent opens the parent directory of p, an absolute path, and returns it with the
// last component. The parent of "/" is "/", the component ".".
func (l Lookup) OpenParent(ctx context.Context, p string) (fd int, name string, err error) {
	dir, name := path.Split(path.Clean(p))
	if name == "" {
		name = "."
	}
	fd, err = l.Open(ctx, dir, unix.O_DIRECTORY)
	return fd, name, err
}

// Open opens p, an absolute path. Flags may hold O_DIRECTORY, which also follows a link in
// the last component.
func (l Lookup) Open(ctx context.Context, p string, flags int) (int, error) {
	if ctx.Done() == nil {
		return l.openWaiting(p, flags)
	}
	if err := ctx.Err(); err != nil {
		return -1, ctxend.Error(ctx)
	}
	fd, err := kernel.OpenCached(unix.AT_FDCWD, p, flags, l.resolve())
	if !kernel.IsUncached(err) {
		return fd, l.explain(err)
	}
	return l.openStepwise(ctx, p, flags)
}

// explain returns ELOOP of a lookup without links as [failure.ErrLink].
func (l Lookup) explain(err error) error {
	if !l.follow && errors.Is(err, unix.ELOOP) {
		return failure.ErrLink
	}
	return err
}

func (l Lookup) resolve() uint64 {
	if l.follow {
		return 0
	}
	return unix.RESOLVE_NO_SYMLINKS
}

// openWaiting is for a context without an end.
func (l Lookup) openWaiting(p string, flags int) (int, error) {
	if !l.follow {
		fd, err := safepath.Open(context.Background(), unix.AT_FDCWD, p, flags)
		return fd, l.explain(err)
	}
	return kernel.RetryOpen(func() (int, error) {
		return unix.Open(p, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
	})
}

// OpenChild opens a name in a directory: the root of the top mount there, or the file
// itself. It never follows a link. To a lookup without links one is [failure.ErrLink]. A mount whose
// directory was removed is a [*StaleError], before Linux 5.12 only after the answer of its server.
func (l Lookup) OpenChild(ctx context.Context, parent int, name string) (int, error) {
	if ctx.Done() == nil {
		fd, err := l.openChildWaiting(parent, name)
		if errors.Is(err, unix.ESTALE) {
			return reopen(ctx, parent, name)
		}
		return fd, err
	}
	fd, err := kernel.OpenCached(parent, name, 0, l.resolve())
	if !kernel.IsUncached(err) {
		return fd, l.explain(err)
	}
	dir, err := unix.FcntlInt(uintptr(parent), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	found, err := l.stepUncached(ctx, dir, component{name: name})
	if err != nil {
		return -1, err
	}
	kernel.Close(found.dir)
	if found.link != "" && !l.follow {
		kernel.Close(found.fd)
		return -1, failure.ErrLink
	}
	return found.fd, nil
}

func (l Lookup) openChildWaiting(parent int, name string) (int, error) {
	if !l.follow {
		fd, err := safepath.Open(context.Background(), parent, name, 0)
		return fd, l.explain(err)
	}
	return kernel.RetryOpen(func() (int, error) {
		return unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

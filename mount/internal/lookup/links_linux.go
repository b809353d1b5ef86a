package lookup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/text"
	"golang.org/x/sys/unix"
)

// Resolve returns p, an absolute path, without symbolic links: neither on the way nor at the
// end. From the first missing component on the path stays as it is. A link through the
// parent of another link is an error that wraps errors.ErrUnsupported.
func (r *Resolver) Resolve(ctx context.Context, p string) (string, error) {
	for range maxLinks {
		at, link, err := r.resolveParent(ctx, p)
		if err != nil || link == "" {
			return at, err
		}
		if !path.IsAbs(link) {
			link = path.Dir(at) + "/" + link
		}
		if p = path.Clean(link); p != link && strings.Contains(link, "/../") {
			// The parent of a link depends on its content.
			return "", fmt.Errorf("link to %s, through the parent of a link: %w", text.Quote(link), errors.ErrUnsupported)
		}
	}
	return "", unix.ELOOP
}

// resolveParent returns the path without the links on the way, and the content of the last
// component if that is a link.
func (r *Resolver) resolveParent(ctx context.Context, p string) (at, link string, err error) {
	if p == "/" {
		return p, "", nil
	}
	l := r.FollowingLinks()
	parent, name, err := l.OpenParent(ctx, p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.As(err, new(*StaleError)) {
		dir, err := r.Resolve(ctx, path.Dir(p))
		return path.Join(dir, path.Base(p)), "", err
	}
	if err != nil {
		return "", "", err
	}
	where, err := kernel.PathOf(parent)
	if err != nil {
		kernel.Close(parent)
		return "", "", err
	}
	found, err := l.step(ctx, parent, component{name: name}) // it closes parent
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.As(err, new(*StaleError)) {
		return path.Join(where, name), "", nil
	}
	if err != nil {
		return "", "", err
	}
	kernel.Close(found.fd, found.dir)
	return path.Join(where, name), found.link, nil
}

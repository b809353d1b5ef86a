package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// followLinks resolves one link at the end of a path after the other; those on the
// way are resolved with each.
func (m *Mounter) followLinks(ctx context.Context, p string) (string, error) {
	for range mostLinks {
		at, link, err := m.followWay(ctx, p)
		if err != nil || link == "" {
			return at, err
		}
		if !path.IsAbs(link) {
			link = path.Dir(at) + "/" + link
		}
		if p = path.Clean(link); p != link && strings.Contains(link, "/../") {
			// What is above a link is for the link to say.
			return "", fmt.Errorf("link to %s: %w", quote(link), errors.ErrUnsupported)
		}
	}
	return "", unix.ELOOP
}

// followWay returns the path without the links on its way, and what it says itself if
// it is one. From where it does not exist it stays as it is.
func (m *Mounter) followWay(ctx context.Context, p string) (at, link string, err error) {
	if p == "/" {
		return p, "", nil
	}
	l := lookup{m: m, ctx: ctx, followLinks: true}
	parent, name, err := l.parent(p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		dir, err := m.followLinks(ctx, path.Dir(p))
		return path.Join(dir, path.Base(p)), "", err
	}
	if err != nil {
		return "", "", err
	}
	where, err := pathOf(parent)
	if err != nil {
		closeFD(parent)
		return "", "", err
	}
	found, err := l.step(parent, name, 0) // it closes parent
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return path.Join(where, name), "", nil
	}
	if err != nil {
		return "", "", err
	}
	closeFD(found.fd, found.dir)
	return path.Join(where, name), found.link, nil
}

// pathOf returns the path of what is open.
func pathOf(fd int) (string, error) {
	where, err := os.Readlink(procFD(fd))
	return where, withoutProc(err)
}

// withoutProc makes another error of the ENOENT of a path in /proc, if that is not
// mounted: nobody is to take it for one about the path that was asked about.
func withoutProc(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, statErr := os.Lstat("/proc/self/fd"); statErr != nil {
		return errNoProc
	}
	return err
}

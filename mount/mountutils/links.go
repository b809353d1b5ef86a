package mountutils

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// Links resolves symbolic links, as mount(8) does before it mounts. It may have to wait for a
// file system on the way. A mounter that resolves links itself is preferred: it makes one
// call at a time for each mount. Otherwise one goroutine at a time waits for each path.
type links struct{ queries keylock.Map }

// A follower is a mounter that resolves links, as [mount.Mounter] does.
type follower interface {
	FollowLinks(ctx context.Context, p string) (string, error)
}

// follow returns p as an absolute path without symbolic links. A missing rest of the path
// stays as it is; the mount reports it.
func (l *links) follow(ctx context.Context, m mount.Interface, p string) (string, error) {
	if p == "" {
		return "", nil
	}
	if f, ok := mount.As[follower](m); ok && filepath.IsAbs(p) && !hasDotDot(p) {
		path, err := f.FollowLinks(ctx, p)
		if !errors.Is(err, errors.ErrUnsupported) {
			return path, err
		}
	}
	return l.followByReadlink(ctx, p)
}

// hasDotDot reports whether a path has "..", which is relative to a link's target.
func hasDotDot(p string) bool {
	return slices.Contains(strings.Split(filepath.ToSlash(p), "/"), "..")
}

func (l *links) followByReadlink(ctx context.Context, p string) (string, error) {
	unlock, err := l.queries.Lock(ctx, p)
	if err != nil {
		return "", ctxend.Error(ctx)
	}
	type answer struct {
		path string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		path, err := followLinks(p)
		unlock()
		done <- answer{path, err}
	}()
	select {
	case a := <-done:
		return a.path, a.err
	case <-ctx.Done():
		return "", ctxend.Error(ctx)
	}
}

// maxPath exceeds the limit of every system.
const maxPath = 1 << 15

// maxLinks is the limit of links in one path, as in Linux.
const maxLinks = 40

// followLinks reads one component after the other. Unlike filepath.EvalSymlinks it does not
// inspect the last component except for a link, which no mount point is: a dead server
// cannot delay it.
func followLinks(p string) (string, error) {
	if len(p) > maxPath {
		return "", syscall.ENAMETOOLONG
	}
	root, rest, err := splitRoot(p)
	if err != nil {
		return "", err
	}
	at := root
	for links := 0; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, separator)
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			at = filepath.Dir(at)
			continue
		}
		link, err := os.Readlink(filepath.Join(at, part))
		if err != nil {
			at = filepath.Join(at, part)
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		if filepath.IsAbs(link) {
			at, link, _ = splitRoot(link)
		}
		rest = link + separator + rest
	}
	return at, nil
}

const separator = string(filepath.Separator)

// splitRoot makes a path absolute and splits off its root.
func splitRoot(p string) (root, rest string, err error) {
	if !filepath.IsAbs(p) {
		dir, err := os.Getwd()
		if err != nil {
			return "", "", err
		}
		p = dir + separator + p // not cleaned: ".." is relative to a link's target
	}
	p = filepath.FromSlash(p)
	volume := filepath.VolumeName(p)
	return volume + separator, p[len(volume):], nil
}

// source resolves the links in a source that is a path, so that the mount table has the
// device's name that callers compare. Devices of /dev/mapper keep the names there.
func (m *Mounter) source(ctx context.Context, req mount.Request) (string, error) {
	switch {
	case req.Remount:
		return req.Source, nil
	case req.FSType == "":
		return m.links.follow(ctx, m.kernel(), req.Source)
	case !strings.HasPrefix(req.Source, "/dev/"), strings.HasPrefix(req.Source, "/dev/mapper/"):
		return req.Source, nil
	}
	device, err := m.links.follow(ctx, m.kernel(), req.Source)
	if err != nil {
		return "", err
	}
	return mapperName("/sys/block", device), nil
}

// mapperName returns the name in /dev/mapper of a device, if it has one.
func mapperName(sysfs, device string) string {
	number, ok := strings.CutPrefix(device, "/dev/dm-")
	if !ok {
		return device
	}
	name, err := os.ReadFile(filepath.Join(sysfs, "dm-"+number, "dm", "name"))
	if err != nil {
		return device
	}
	return "/dev/mapper/" + strings.TrimSpace(string(name))
}

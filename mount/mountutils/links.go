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

// Links follows symbolic links, as mount(8) does before it mounts. It may have to
// wait for a file system on the way; of one that can do it itself the mounter is asked,
// in which one call waits for each mount. Else one goroutine waits for each path.
type links struct{ asking keylock.Map }

// A follower is a mounter that follows links, as [mount.Mounter] does.
type follower interface {
	FollowLinks(ctx context.Context, p string) (string, error)
}

// follow returns the absolute path that p leads to. What does not exist stays as
// it is, for others to complain about.
func (l *links) follow(ctx context.Context, m mount.Interface, p string) (string, error) {
	if p == "" {
		return "", nil
	}
	if f, ok := m.(follower); ok && filepath.IsAbs(p) && !hasDotDot(p) {
		path, err := f.FollowLinks(ctx, p)
		if !errors.Is(err, errors.ErrUnsupported) {
			return path, err
		}
	}
	return l.followHere(ctx, p)
}

// hasDotDot: what ".." is after a link is for the link to say.
func hasDotDot(p string) bool {
	return slices.Contains(strings.Split(filepath.ToSlash(p), "/"), "..")
}

func (l *links) followHere(ctx context.Context, p string) (string, error) {
	unlock, err := l.asking.Lock(ctx, p)
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

// mostLinks is how many are followed for one path, as in Linux.
const mostLinks = 40

// followLinks reads one component after the other. Unlike filepath.EvalSymlinks
// it asks nothing of what is at the end but whether it is a link, which no mount
// point is: a dead server cannot hold that up.
func followLinks(p string) (string, error) {
	root, rest, err := split(p)
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
		if links++; links > mostLinks {
			return "", syscall.ELOOP
		}
		if filepath.IsAbs(link) {
			at, link, _ = split(link)
		}
		rest = link + separator + rest
	}
	return at, nil
}

const separator = string(filepath.Separator)

// split makes a path absolute and takes the root off it.
func split(p string) (root, rest string, err error) {
	if !filepath.IsAbs(p) {
		dir, err := os.Getwd()
		if err != nil {
			return "", "", err
		}
		p = dir + separator + p // not cleaned: ".." after a link is for the link to say
	}
	p = filepath.FromSlash(p)
	volume := filepath.VolumeName(p)
	return volume + separator, p[len(volume):], nil
}

// source follows the links to a source that is a path, so that the mount table
// names the device that callers compare it with. The names of /dev/mapper are the
// ones by which those devices go.
func (m *Mounter) source(ctx context.Context, req mount.Request) (string, error) {
	switch {
	case req.Remount:
		return req.Source, nil
	case req.FSType == "":
		return m.links.follow(ctx, m.mounter, req.Source)
	case !strings.HasPrefix(req.Source, "/dev/"), strings.HasPrefix(req.Source, "/dev/mapper/"):
		return req.Source, nil
	}
	device, err := m.links.follow(ctx, m.mounter, req.Source)
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

package main

import (
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// measureRefs finds the other mounts of a directory. The floor is one statx(2), which identifies
// the directory, and one poll(2), which shows that a copy of the mount table is current; for
// many references it reads the table's text without parsing it.
func measureRefs(b *bench) error {
	n, err := newNode(b.dir)
	if err == nil {
		err = n.mountOnce()
	}
	if err != nil {
		return err
	}
	err = b.measureInCrowds(n, smallestAndLargest(b.mounts), n.refs(b, "references of a directory mounted once, N mounts", n.source(), rawRefs))
	if err != nil {
		return err
	}
	if err := n.close(); err != nil {
		return err
	}
	if n, err = newNodeWith(b.dir, "disk"); err == nil {
		err = n.mountOnce()
	}
	if err != nil {
		return err
	}
	return b.measureInCrowds(n, smallestAndLargest(b.mounts),
		n.refs(b, "references of a directory mounted once, N mounts in its file system", n.source(), rawRefs),
		n.refs(b, "references of a directory mounted N times", n.crowdSource(), rawList),
	)
}

// mountOnce mounts the source at another path.
func (n *node) mountOnce() error {
	once := filepath.Join(n.pods, "once")
	if err := makeAll(once); err != nil {
		return err
	}
	return unix.Mount(n.source(), once, "", unix.MS_BIND, "")
}

func (n *node) refs(b *bench, work, dir string, floor func(string) error) trial {
	return trial{
		work:  work,
		ours:  paths(func() ([]string, error) { return n.ours.MountRefs(b.ctx, dir) }),
		peer:  paths(func() ([]string, error) { return n.peer.GetMountRefs(dir) }),
		floor: side{up: func() error { return floor(dir) }},
	}
}

// paths returns a side whose state is the last result.
func paths(ask func() ([]string, error)) side {
	var answer []string
	return side{
		up: func() (err error) {
			answer, err = ask()
			return err
		},
		seen: func() (string, error) { return joined(answer, strings.Clone), nil },
	}
}

func rawRefs(dir string) error {
	if _, err := rawIsMountPoint(dir); err != nil {
		return err
	}
	for { // a signal of the Go runtime interrupts poll(2), also one that does not wait
		_, err := unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLPRI}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

package mount

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// anchors are clones of mounts that nobody sees. Cloning a mount takes a look at
// every mount that is attached in it; a clone has none, so the next bind mounts of
// what is in a crowded mount are made from its clone (Linux 6.15).
type anchors struct {
	mu      sync.Mutex // guards the map and what is in it; nothing under it waits
	mounts  map[uint64]*anchor
	closing *time.Timer
	closed  bool // there will be no more
}

// An anchor is a clone of a whole mount, and has the flags that are noted: when the
// mount has others it is void.
type anchor struct {
	fd    int
	attrs uint64
	used  time.Time
}

// crowd is how many mounts in a mount make it worth an anchor.
const crowd = 256

// anchored is how long an unused anchor is kept: it keeps the file system alive.
// Tests change it.
var anchored = 2 * time.Second

// at returns the source as the anchor of its mount has it; or false if there is no
// anchor, and none can be made, or another mount has come between.
func (a *anchors) at(src *source, s sourceSpot) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := a.held(s)
	if held == nil {
		return -1, false
	}
	held.used = time.Now()
	fd, err := openCached(held.fd, path.Join(".", s.rest), 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_XDEV|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1, false
	}
	// A mount in the mount hides what the anchor shows.
	if id, err := identify(fd); err != nil || !id.sameObject(src.id) {
		closeFD(fd)
		return -1, false
	}
	return fd, true
}

// held returns the anchor of the source's mount, and makes it if need be.
func (a *anchors) held(s sourceSpot) *anchor {
	if held, ok := a.mounts[s.mount]; ok {
		if held.attrs == s.attrs {
			return held
		}
		a.drop(s.mount)
	}
	if a.closed {
		return nil
	}
	fd, ok := cloneWhole(s)
	if !ok {
		return nil
	}
	if a.mounts == nil {
		a.mounts = map[uint64]*anchor{}
	}
	held := &anchor{fd: fd, attrs: s.attrs}
	a.mounts[s.mount] = held
	if a.closing == nil {
		a.closing = time.AfterFunc(anchored, a.dropUnused)
	}
	return held
}

// cloneWhole clones the mount that a source is in, from its root.
func cloneWhole(s sourceSpot) (int, bool) {
	root, err := openCached(unix.AT_FDCWD, s.point, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1, false
	}
	defer closeFD(root)
	if id, err := uniqueMount(root); err != nil || id != s.mount {
		return -1, false // it is hidden under another
	}
	// The flags that it is known by: the mount's may have changed since.
	attr := exactly(flagsOf(s.attrs)).setattr()
	attr.Propagation = unix.MS_PRIVATE
	fd, err := openTreeAttr(root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH, &attr)
	return fd, err == nil
}

// dropUnused is called as long as there are anchors.
func (a *anchors) dropUnused() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for mount, held := range a.mounts {
		if time.Since(held.used) >= anchored {
			a.drop(mount)
		}
	}
	a.closing = nil
	if len(a.mounts) > 0 {
		a.closing = time.AfterFunc(anchored, a.dropUnused)
	}
}

// forget closes the anchor of a mount that is about to be unmounted: its file
// system is to end then. It cannot end here, for it is still mounted.
func (a *anchors) forget(mount mountID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if held, ok := a.mounts[mount.number]; ok && mount.unique {
		delete(a.mounts, mount.number)
		closeFD(held.fd)
	}
}

// drop closes an anchor: not here, for the file system may end with it, and that
// takes as long as its device or server does.
func (a *anchors) drop(mount uint64) {
	fd := a.mounts[mount].fd
	delete(a.mounts, mount)
	go closeFD(fd)
}

// dropAll closes the anchors, which may hold up the end of a file system.
func (a *anchors) dropAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for mount := range a.mounts {
		a.drop(mount)
	}
	if a.closing != nil {
		a.closing.Stop()
		a.closing = nil
	}
}

// A sourceSpot is where a source is: in which mount, and where in the tree.
type sourceSpot struct {
	mount uint64 // its unique number
	attrs uint64
	point string // where the mount is
	rest  string // the way from there to the source; empty for the mount's root
}

// spot finds out where the source is (Linux 6.8).
func (s *source) spot() (sourceSpot, error) {
	mount, err := uniqueMount(s.fd)
	if err != nil {
		return sourceSpot{}, err
	}
	where, err := pathOf(s.fd)
	if err != nil {
		return sourceSpot{}, err
	}
	l := newLook(context.Background())
	defer l.done()
	f, err := l.ask(mount, askMount|askPoint)
	if err != nil {
		return sourceSpot{}, err
	}
	point := string(f.pointPath())
	rest, ok := below(point, where)
	if !ok {
		return sourceSpot{}, fmt.Errorf("%q is not in %q: %w", where, point, fs.ErrNotExist)
	}
	return sourceSpot{mount: mount, attrs: f.attrs, point: point, rest: rest}, nil
}

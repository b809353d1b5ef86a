package building

import (
	"path"
	"sync"
	"time"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/options"
	"golang.org/x/sys/unix"
)

// Anchors are the anchors of crowded mounts (Linux 6.15). The zero value is ready.
type Anchors struct {
	mu      sync.Mutex // guards the other fields; no call under it waits
	mounts  map[uint64]*anchor
	closing *time.Timer
	closed  bool // no further anchors
}

// An anchor is a private clone of a whole mount. It is invalid as soon as the mount has other
// attributes.
type anchor struct {
	fd    int
	attrs uint64
	used  time.Time
}

// AnchorThreshold is the number of attached mounts from which on a mount is worth an anchor.
const AnchorThreshold = 256

// AnchorTime limits the life of an unused anchor, which keeps the file system alive. Tests
// change it.
var AnchorTime = 2 * time.Second

// UseAnchor lets the source be cloned from the anchor of its mount, if there is one or one can
// be made.
func (b *Builder) UseAnchor(source *Source, spot Spot) {
	if tier, err := b.SelectTier(); err != nil || tier < TierTreeAttr {
		return
	}
	if fd, ok := b.Anchors.open(source, spot); ok {
		source.anchored = fd
	}
}

// open opens the source in the anchor of its mount. It fails if a mount between the root of
// the mount and the source hides the anchor's file.
func (a *Anchors) open(source *Source, spot Spot) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := a.hold(spot)
	if held == nil {
		return -1, false
	}
	held.used = time.Now()
	fd, err := kernel.OpenCached(held.fd, path.Join(".", spot.Inside), 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_XDEV|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1, false
	}
	if id, err := kernel.Identify(fd); err != nil || !id.SameObject(source.ID) {
		kernel.Close(fd)
		return -1, false
	}
	return fd, true
}

// hold returns the anchor of a spot's mount, and makes a missing one. It returns nil if none
// can be made.
func (a *Anchors) hold(spot Spot) *anchor {
	if held, ok := a.mounts[spot.mount]; ok {
		if held.attrs == spot.attrs {
			return held
		}
		a.drop(spot.mount)
	}
	if a.closed {
		return nil
	}
	fd, ok := cloneMount(spot)
	if !ok {
		return nil
	}
	if a.mounts == nil {
		a.mounts = map[uint64]*anchor{}
	}
	held := &anchor{fd: fd, attrs: spot.attrs}
	a.mounts[spot.mount] = held
	if a.closing == nil {
		a.closing = time.AfterFunc(AnchorTime, a.dropUnused)
	}
	return held
}

// cloneMount clones the mount of a spot from its root, unless another mount hides it. The
// clone gets the attributes of the spot, since those of the mount may have changed.
func cloneMount(spot Spot) (int, bool) {
	root, err := kernel.OpenCached(unix.AT_FDCWD, spot.point, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1, false
	}
	defer kernel.Close(root)
	if id, err := kernel.UniqueMountID(root); err != nil || id != spot.mount {
		return -1, false
	}
	change := options.Exactly(options.FlagsOf(spot.attrs)).Change()
	change.Propagation = unix.MS_PRIVATE
	fd, err := openTreeAttr(root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH, &change)
	return fd, err == nil
}

// dropUnused drops anchors that were not used for [AnchorTime]. It calls itself until no
// anchor is left.
func (a *Anchors) dropUnused() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for mount, held := range a.mounts {
		if time.Since(held.used) >= AnchorTime {
			a.drop(mount)
		}
	}
	a.closing = nil
	if len(a.mounts) > 0 {
		a.closing = time.AfterFunc(AnchorTime, a.dropUnused)
	}
}

// Forget closes the anchor of a mount before an unmount, so that the file system ends with the
// unmount. The close does not wait, since the mount still keeps the file system.
func (a *Anchors) Forget(mount kernel.MountID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if held, ok := a.mounts[mount.Number]; ok && mount.Unique {
		delete(a.mounts, mount.Number)
		kernel.Close(held.fd)
	}
}

// drop closes an anchor in another goroutine: the file system may end with it, which can wait
// for its device or server.
func (a *Anchors) drop(mount uint64) {
	fd := a.mounts[mount].fd
	delete(a.mounts, mount)
	go kernel.Close(fd)
}

// Close drops all anchors, and prevents further ones.
func (a *Anchors) Close() {
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

// Len returns the number of anchors.
func (a *Anchors) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.mounts)
}

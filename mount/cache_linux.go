package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"golang.org/x/sys/unix"
)

// A cache finds mounts without reading the mount table, and is never stale: before
// each answer it takes in what its feed has to tell, and what may change silently
// it asks of the kernel about the few mounts that the answer is about.
//
// Between questions it does nothing. It opens its feed at the first. The zero value
// is ready for use.
//
// What it cannot answer is an error, usually one that wraps errors.ErrUnsupported:
// then the table has to be read.
type cache struct {
	ways []wayToKnow // nil: feeds

	// turn is held for what follows. Nothing is done under it that waits for a file
	// system, but of many mounts there is a lot to learn.
	turn   keylock.Map
	closed bool
	feed   feed // nil: not open
	index  *index
	behind []uint64 // mounts that are still to be asked about
	stand  stand
	asker  asker
}

// lock waits for the cache's turn as long as ctx allows.
func (c *cache) lock(ctx context.Context) (unlock func(), err error) {
	if unlock, err = c.turn.Lock(ctx, ""); err != nil {
		return nil, ctxend.Error(ctx)
	}
	return unlock, nil
}

// close gives back what the cache holds. It answers no more.
func (c *cache) close() {
	unlock, err := c.lock(context.Background())
	if err != nil {
		return // it does not end
	}
	defer unlock()
	c.closed = true
	c.drop()
}

func (c *cache) drop() {
	if c.feed != nil {
		c.feed.close()
	}
	c.feed, c.index, c.behind = nil, nil, nil
}

// find picks mounts from an index that is up to date.
func (c *cache) find(ctx context.Context, pick func(*index) []uint64) ([]uint64, error) {
	unlock, err := c.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := c.update(ctx); err != nil {
		return nil, err
	}
	return pick(c.index), nil
}

func (c *cache) update(ctx context.Context) error {
	if c.closed {
		return fmt.Errorf("closed: %w", errors.ErrUnsupported)
	}
	here, err := standpoint()
	if err != nil {
		return err
	}
	if c.feed == nil {
		return c.open(ctx, here)
	}
	if here != c.stand {
		return fmt.Errorf("the process's root is another one: %w", errors.ErrUnsupported)
	}
	changed, all, err := c.feed.changes()
	if err == nil {
		err = c.take(ctx, changed, all)
	}
	if err != nil && ctx.Err() == nil { // some news may be lost
		c.drop()
	}
	return err
}

// open begins to listen before it looks.
func (c *cache) open(ctx context.Context, here stand) (err error) {
	if _, err := c.asker.ask(here.mount, askDevice); err != nil {
		return err
	}
	if err := canList(); err != nil { // a feed takes long to close
		return err
	}
	ways := c.ways
	if ways == nil {
		ways = feeds
	}
	if c.feed, err = openFeed(ways); err != nil {
		return err
	}
	c.stand, c.index = here, newIndex()
	if err = c.take(ctx, nil, true); err != nil && ctx.Err() == nil {
		c.drop()
	}
	return err
}

// take brings the index up to date.
func (c *cache) take(ctx context.Context, changed []uint64, all bool) error {
	if all {
		listed, err := listMounts()
		if err != nil {
			c.drop()
			return err
		}
		if c.tellsMoves() { // that one was moved may be among the news that are lost
			c.index = newIndex()
		}
		changed = c.index.keep(listed)
	}
	slices.Sort(changed) // one that came and went is named twice
	c.behind = append(c.behind, slices.Compact(changed)...)
	return c.catchUp(ctx)
}

// catchUp asks about the mounts that the index does not know. If ctx ends, the next
// one goes on where it stopped.
func (c *cache) catchUp(ctx context.Context) error {
	points := map[uint64]string{}
	for i, id := range c.behind {
		if i%256 == 0 && ctx.Err() != nil {
			c.behind = slices.Clone(c.behind[i:])
			return ctxend.Error(ctx)
		}
		if err := c.learn(id, points); err != nil {
			return err
		}
	}
	c.behind = c.behind[:0]
	return nil
}

// learn asks about one mount.
func (c *cache) learn(id uint64, points map[uint64]string) error {
	f, err := c.asker.ask(id, askDevice|askMount|askPoint|askType|askSource)
	if errors.Is(err, fs.ErrNotExist) {
		c.index.remove(id)
		return nil
	}
	if err != nil {
		return err
	}
	c.index.sourced = c.index.sourced || f.has(askSource)
	m, point := indexedOf(f), string(f.pointPath())
	m.inside = c.insideOf(m.parent, point, points) // f is void now
	c.index.add(id, m)
	return nil
}

// insideOf returns where in its parent a mount is attached. Points has the mount
// points of parents that are known already.
func (c *cache) insideOf(parent uint64, point string, points map[uint64]string) string {
	at, known := points[parent]
	if !known {
		if f, err := c.asker.ask(parent, askPoint); err == nil {
			at = string(f.pointPath())
		}
		points[parent] = at
	}
	rest, _ := below(at, point)
	return "/" + rest
}

// tellsMoves reports whether the feed tells of mounts that are moved.
func (c *cache) tellsMoves() bool {
	_, told := c.feed.(*eventFeed)
	return told
}

// count returns how many mounts of a device there are.
func (c *cache) count(ctx context.Context, d device) (int, error) {
	n := 0
	_, err := c.find(ctx, func(x *index) []uint64 {
		n = len(x.devices[d])
		return nil
	})
	return n, err
}

// crowdIn returns how many mounts are attached in a mount, and whether any is at or
// below a place in it. Only events tell of mounts that are moved.
func (c *cache) crowdIn(ctx context.Context, mount uint64, inside string) (n int, below bool, err error) {
	unlock, err := c.lock(ctx)
	if err != nil {
		return 0, false, err
	}
	defer unlock()
	if c.feed != nil && !c.tellsMoves() {
		return 0, false, errNoFeed
	}
	if err := c.update(ctx); err != nil {
		return 0, false, err
	}
	if !c.tellsMoves() {
		return 0, false, errNoFeed
	}
	set, ok := c.index.inside[mount]
	if !ok {
		return 0, false, nil
	}
	_, below = set.below(inside)
	return set.total, below, nil
}

func indexedOf(f facts) indexed {
	fsType := string(f.bytes(askType, f.fsType))
	return indexed{
		device: f.device(),
		parent: f.parent,
		source: string(f.bytes(askSource, f.source)),
		// The directory that is mounted, or a device that is still there.
		fickle: slices.Contains([]string{"nfs", "nfs4", "btrfs"}, fsType),
	}
}

// refs is MountRefs for a path, as the kernel spells it, in a mount.
func (c *cache) refs(ctx context.Context, in uint64, where string) ([]string, error) {
	l := newLook(ctx)
	defer l.done()
	d, root, err := l.content(in, where)
	if err != nil {
		return nil, err
	}
	candidates, err := c.find(ctx, func(x *index) []uint64 { return x.of(d) })
	if err != nil {
		return nil, err
	}
	var refs []string
	for _, id := range candidates {
		if id == in { // it shows what is at where there alone
			continue
		}
		point, err := l.seen(id, root, where)
		if err != nil {
			return nil, err
		}
		if point != "" {
			refs = append(refs, point)
		}
	}
	slices.Sort(refs)
	return slices.Compact(refs), nil
}

// info returns the line of the mount table for a mount.
func (c *cache) info(ctx context.Context, id uint64) (Info, error) {
	l := newLook(ctx)
	defer l.done()
	if _, err := c.findSourced(ctx, func(*index) []uint64 { return nil }); err != nil {
		return Info{}, err
	}
	info, ok, err := l.info(id)
	if err == nil && !ok {
		err = unix.ENOENT
	}
	return info, err
}

// from returns the mounts from an origin, in the kernel's order.
func (c *cache) from(ctx context.Context, o origin) ([]Info, error) {
	l := newLook(ctx)
	defer l.done()
	candidates, err := c.findSourced(ctx, func(x *index) []uint64 { return x.from(o) })
	if err != nil {
		return nil, err
	}
	var infos []Info
	for _, id := range candidates {
		info, ok, err := l.info(id)
		if err != nil {
			return nil, err
		}
		if ok {
			infos = append(infos, info)
		}
	}
	return o.only(infos)
}

// findSourced is find where the kernel tells all that the table does (Linux 6.13).
func (c *cache) findSourced(ctx context.Context, pick func(*index) []uint64) ([]uint64, error) {
	sourced := false
	found, err := c.find(ctx, func(x *index) []uint64 {
		sourced = x.sourced
		return pick(x)
	})
	if err == nil && !sourced {
		err = fmt.Errorf("sources of mounts: %w", errors.ErrUnsupported)
	}
	return found, err
}

// A stand is where a thread stands in its mount namespace: its root. Another
// namespace has other mounts.
type stand struct {
	mount, inode uint64
	device       device
}

func standpoint() (stand, error) {
	var x unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, "/", quiet, unix.STATX_MNT_ID_UNIQUE|unix.STATX_INO, &x); err != nil {
		return stand{}, err
	}
	if x.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return stand{}, errNoUniqueIDs
	}
	return stand{x.Mnt_id, x.Ino, device{x.Dev_major, x.Dev_minor}}, nil
}

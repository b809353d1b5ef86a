package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// A Cache finds mounts without reading the mount table, and is never stale. It opens its feed
// at the first question and does nothing between questions. The zero value is ready for use;
// its methods are safe for concurrent use.
//
// A question that it cannot answer is an error, usually one that wraps errors.ErrUnsupported:
// then the mount table has to be read.
type Cache struct {
	// Feeds are the feeds in the order of preference; nil: the best of the kernel. Tests set
	// it.
	Feeds []OpenFeed

	// turn locks the fields below. No holder waits for a file system, but reading many new
	// mounts takes time.
	turn    keylock.Map
	closed  bool
	feed    Feed // nil: not open
	index   *index
	pending []uint64 // mounts to read into the index
	root    processRoot
	reader  record.Reader
}

// lock locks the cache, or fails when ctx ends.
func (c *Cache) lock(ctx context.Context) (unlock func(), err error) {
	if unlock, err = c.turn.Lock(ctx, ""); err != nil {
		return nil, ctxend.Error(ctx)
	}
	return unlock, nil
}

// lockFresh locks the cache and refreshes it, see refresh.
func (c *Cache) lockFresh(ctx context.Context, about uint64, skip func(mount uint64) bool) (unlock func(), err error) {
	if unlock, err = c.lock(ctx); err != nil {
		return nil, err
	}
	if err := c.refresh(ctx, about, skip); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// Close releases the feed and the index. Later questions fail.
func (c *Cache) Close() {
	unlock, err := c.lock(context.Background())
	if err != nil {
		return // never: the context does not end
	}
	defer unlock()
	c.closed = true
	c.discard()
}

// discard closes the feed and forgets the index. The next question opens the cache anew.
func (c *Cache) discard() {
	if c.feed != nil {
		c.feed.Close()
	}
	c.feed, c.index, c.pending = nil, nil, nil
}

// open opens the feed before it lists the mounts, so that no change is missed between.
func (c *Cache) open(ctx context.Context, root processRoot) (err error) {
	if _, err := c.reader.Read(root.mount, record.WantDevice); err != nil {
		return err
	}
	if err := record.CheckListing(); err != nil { // before the feed is open: closing it is slow
		return err
	}
	feeds := c.Feeds
	if feeds == nil {
		feeds = bestFeeds
	}
	if c.feed, err = openFirstFeed(feeds, mountinfo.Path); err != nil {
		return err
	}
	c.root, c.index = root, newIndex()
	if err = c.relist(ctx); err != nil && ctx.Err() == nil {
		c.discard()
	}
	return err
}

// findMounts returns the mounts that choose selects from the current index.
func (c *Cache) findMounts(ctx context.Context, choose func(*index) []uint64) ([]uint64, error) {
	unlock, err := c.lockFresh(ctx, 0, nil)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return choose(c.index), nil
}

// reportsMoves reports whether the feed reports moved mounts.
func (c *Cache) reportsMoves() bool {
	_, ok := c.feed.(*eventFeed)
	return ok
}

var errClosed = fmt.Errorf("closed: %w", errors.ErrUnsupported)

package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/mount/internal/record"
)

// refresh applies the feed's news to the index, for a question about the mount with the unique
// ID about (0: about any mount). Pending mounts that skip accepts stay pending; nil accepts
// none.
//
// The index belongs to the mount namespace and the root of the thread that opened the feed. A
// caller that found a mount of the index is in the same namespace: for a question about this
// mount the root is compared only if mounts have to be read.
func (c *Cache) refresh(ctx context.Context, about uint64, skip func(mount uint64) bool) error {
	if c.closed {
		return errClosed
	}
	if c.feed == nil {
		root, err := readProcessRoot()
		if err != nil {
			return err
		}
		return c.open(ctx, root)
	}
	events, all, err := c.feed.ReadEvents()
	if err != nil {
		c.discard() // events may be lost
		return err
	}
	for _, e := range events {
		c.applyEvent(e)
	}
	if !all && c.hasMount(about) && allAccepted(c.pending, skip) {
		return nil
	}
	if err := c.checkRoot(); err != nil {
		if all {
			c.discard() // the report that any mount may have changed would be lost
		}
		return err
	}
	if all {
		err = c.relist(ctx)
	} else {
		err = c.readPending(ctx)
	}
	if err != nil && ctx.Err() == nil {
		c.discard() // events may be lost
	}
	return err
}

// applyEvent removes a detached mount from the index, and makes any other mount pending.
func (c *Cache) applyEvent(e Event) {
	if !e.Gone {
		c.pending = append(c.pending, e.Mount)
		return
	}
	c.index.remove(e.Mount)
	c.pending = slices.DeleteFunc(c.pending, func(mount uint64) bool { return mount == e.Mount })
}

// hasMount reports whether the mount is indexed or pending.
func (c *Cache) hasMount(mount uint64) bool {
	_, indexed := c.index.mounts[mount]
	return indexed || slices.Contains(c.pending, mount)
}

func allAccepted(mounts []uint64, accept func(uint64) bool) bool {
	return !slices.ContainsFunc(mounts, func(mount uint64) bool { return accept == nil || !accept(mount) })
}

// checkRoot returns an error if the calling thread has another root than the one that opened
// the cache.
func (c *Cache) checkRoot() error {
	root, err := readProcessRoot()
	if err == nil && root != c.root {
		err = fmt.Errorf("another root or mount namespace: %w", errors.ErrUnsupported)
	}
	return err
}

// relist compares the index with the list of all mounts, and reads the missing ones.
func (c *Cache) relist(ctx context.Context) error {
	listed, err := record.List()
	if err != nil {
		c.discard()
		return err
	}
	if c.reportsMoves() { // the lost events may include moves, which a list does not show
		c.index = newIndex()
	}
	c.pending = c.index.retain(listed)
	return c.readPending(ctx)
}

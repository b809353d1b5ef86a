package local

import (
	"context"
	"slices"
	"sync"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
)

// A place is where a directory is in its file system, by whatever path.
type place struct {
	major, minor uint32
	path         string
}

// overlaps reports whether one is the other, or in it.
func (p place) overlaps(other place) bool {
	return p.major == other.major && p.minor == other.minor &&
		(isOrIsBelow(p.path, other.path) || isOrIsBelow(other.path, p.path))
}

// claims keep calls of SetUp apart that would look at each other's files, from the
// look at who uses them to the mount that makes the call one of these. They are
// served in the order in which they come. It is locked after the volume's directory.
type claims struct {
	mu   sync.Mutex
	list []*claim // those who have theirs and those who wait, in order
}

type claim struct {
	place
	alone bool // nobody else at the same time; else only nobody who is alone
	over  chan struct{}
}

// take waits for its turn, which lasts until done is called.
func (c *claims) take(ctx context.Context, at place, alone bool) (done func(), err error) {
	mine := &claim{place: at, alone: alone, over: make(chan struct{})}
	for _, earlier := range c.enter(mine) {
		select {
		case <-earlier.over:
		case <-ctx.Done():
			c.leave(mine)
			return nil, util.Transient(ctxend.Error(ctx))
		}
	}
	return func() { c.leave(mine) }, nil
}

// enter returns those who come first.
func (c *claims) enter(mine *claim) (earlier []*claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.list {
		if (mine.alone || other.alone) && mine.overlaps(other.place) {
			earlier = append(earlier, other)
		}
	}
	c.list = append(c.list, mine)
	return earlier
}

func (c *claims) leave(mine *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, func(other *claim) bool { return other == mine })
	close(mine.over)
}

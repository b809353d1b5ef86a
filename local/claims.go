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
//
// To know where a directory is takes the whole mount table, which those who share do
// not read for nothing: while nobody is alone they leave it to who is next.
type claims struct {
	mu   sync.Mutex
	list []*claim // those who have theirs and those who wait, in order
}

type claim struct {
	dir   string
	at    func(dir string) place // nil: who knows, see dir
	alone bool                   // nobody else at the same time; else only nobody who is alone
	over  chan struct{}
}

// share takes the directory if nobody is alone anywhere.
func (c *claims) share(dir string) (done func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.list, func(other *claim) bool { return other.alone }) {
		return nil, false
	}
	mine := &claim{dir: dir, over: make(chan struct{})}
	c.list = append(c.list, mine)
	return func() { c.leave(mine) }, true
}

// take waits for its turn, which lasts until done is called. It is told where directories
// are.
func (c *claims) take(ctx context.Context, dir string, at func(dir string) place, alone bool) (done func(), err error) {
	mine := &claim{dir: dir, at: at, alone: alone, over: make(chan struct{})}
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
		if (mine.alone || other.alone) && mine.overlaps(other) {
			earlier = append(earlier, other)
		}
	}
	c.list = append(c.list, mine)
	return earlier
}

// overlaps of a claim whose place is known.
func (c *claim) overlaps(other *claim) bool {
	at := other.at
	if at == nil {
		at = c.at
	}
	return c.at(c.dir).overlaps(at(other.dir))
}

func (c *claims) leave(mine *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, func(other *claim) bool { return other == mine })
	close(mine.over)
}

package local

import (
	"context"
	"slices"
	"sync"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
)

// A place is a directory's location in its file system, independent of the path.
type place struct {
	major, minor uint32
	path         string
}

// overlaps reports whether one place is, or contains, the other.
func (p place) overlaps(other place) bool {
	return p.major == other.major && p.minor == other.minor &&
		(isOrIsBelow(p.path, other.path) || isOrIsBelow(other.path, p.path))
}

// claims serialise calls of SetUp whose directories overlap, from the search for current
// users of a directory to the mount that makes the call's pod a user. Calls are served in
// the order of their arrival. The lock comes after that of the volume's directory.
//
// To locate a directory requires the whole mount table. Shared claims avoid that: while
// there is no exclusive claim they leave it to the next exclusive one.
type claims struct {
	mu   sync.Mutex
	list []*claim // granted and waiting claims, in order
}

type claim struct {
	dir   string
	at    func(dir string) place // locates the directory; nil: unknown, see dir
	alone bool                   // exclusive; otherwise shared with other shared claims
	over  chan struct{}
}

// share grants a shared claim if there is no exclusive one.
func (c *claims) share(dir string) (done func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.list, func(other *claim) bool { return other.alone }) {
		return nil, false
	}
	mine := &claim{dir: dir, over: make(chan struct{})}
	c.list = append(c.list, mine)
	return func() { c.dequeue(mine) }, true
}

// acquire waits for its turn, which ends with the call of done. At locates directories.
func (c *claims) acquire(ctx context.Context, dir string, at func(dir string) place, alone bool) (done func(), err error) {
	mine := &claim{dir: dir, at: at, alone: alone, over: make(chan struct{})}
	for _, earlier := range c.enqueue(mine) {
		select {
		case <-earlier.over:
		case <-ctx.Done():
			c.dequeue(mine)
			return nil, util.Transient(ctxend.Error(ctx))
		}
	}
	return func() { c.dequeue(mine) }, nil
}

// enqueue appends a claim and returns the claims that it waits for.
func (c *claims) enqueue(mine *claim) (earlier []*claim) {
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

// overlaps reports whether a located claim conflicts with another one.
func (c *claim) overlaps(other *claim) bool {
	at := other.at
	if at == nil {
		at = c.at
	}
	return c.at(c.dir).overlaps(at(other.dir))
}

func (c *claims) dequeue(mine *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, func(other *claim) bool { return other == mine })
	close(mine.over)
}

package mountutils

import (
	"errors"
	"sync/atomic"
)

// A claim is the right to change what is mounted: the work takes it, or its caller
// takes it back. Work that was under way when its caller left learns that in the
// end, and undoes it.
type claim struct{ state atomic.Int32 }

const (
	claimFree     int32 = iota
	claimTaken          // the work is under way
	claimFinished       // and done
	claimRevoked        // the caller has left, and nothing will be done
	claimGivenUp        // the caller has left while the work was under way
)

// errAbandoned is what work returns that may not change anything any more.
var errAbandoned = errors.New("abandoned")

// take reports whether the work may change the world.
func (c *claim) take() bool {
	return c.state.CompareAndSwap(claimFree, claimTaken) || c.state.Load() == claimTaken
}

// finish reports whether the caller is still there to learn what was done.
func (c *claim) finish() bool { return c.state.CompareAndSwap(claimTaken, claimFinished) }

// giveUp is for the caller to leave. It returns the state after that.
func (c *claim) giveUp() int32 {
	if !c.state.CompareAndSwap(claimFree, claimRevoked) {
		c.state.CompareAndSwap(claimTaken, claimGivenUp)
	}
	return c.state.Load()
}

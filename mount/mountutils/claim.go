package mountutils

import (
	"errors"
	"sync/atomic"
)

// A claim is the right of work to change mounts: the work acquires it, or the caller revokes it.
// If the caller has abandoned the work, finish returns false, and the work reverts its change.
type claim struct{ state atomic.Int32 }

const (
	claimFree      int32 = iota
	claimAcquired        // the work is in progress
	claimFinished        // the work has ended before the caller abandoned it
	claimRevoked         // the caller abandoned the work before its change, which is omitted
	claimAbandoned       // the caller abandoned the work during its change
)

// errAbandoned is the error of work whose claim was revoked.
var errAbandoned = errors.New("the call was abandoned")

// acquire reports whether the work may change mounts.
func (c *claim) acquire() bool {
	return c.state.CompareAndSwap(claimFree, claimAcquired) || c.state.Load() == claimAcquired
}

// finish reports whether the caller still waits for the result.
func (c *claim) finish() bool { return c.state.CompareAndSwap(claimAcquired, claimFinished) }

// abandon records that the caller waits no longer, and returns the new state.
func (c *claim) abandon() int32 {
	if !c.state.CompareAndSwap(claimFree, claimRevoked) {
		c.state.CompareAndSwap(claimAcquired, claimAbandoned)
	}
	return c.state.Load()
}

package mount

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/util/ctxend"
)

// A claim is the right to change what is mounted. Either the work takes it, and
// then its caller waits for the change; or the caller takes it back when its
// context has ended, and then the work must end without a change.
type claim struct {
	state atomic.Int32
	calm  bool // the caller is at it, and must not be made to wait
}

const (
	claimFree int32 = iota
	claimTaken
	claimRevoked
)

// take reports whether the work may change the world, now and from now on.
func (c *claim) take() bool {
	return c.state.CompareAndSwap(claimFree, claimTaken) || c.state.Load() == claimTaken
}

// revoke reports whether the claim was still free; the work cannot take it then.
func (c *claim) revoke() bool { return c.state.CompareAndSwap(claimFree, claimRevoked) }

// errAbandoned is what work returns when its claim was taken back.
var errAbandoned = errors.New("abandoned")

// inTime runs work and returns soon after ctx ends. It unlocks the target when the
// work has ended, or can change nothing any more.
func inTime(ctx context.Context, unlock func(), work func(*claim) error) error {
	c := new(claim)
	if ctx.Done() == nil {
		defer unlock()
		return work(c)
	}
	unlock = sync.OnceFunc(unlock)
	done := make(chan error, 1)
	go func() {
		err := work(c)
		unlock()
		done <- err
	}()
	if err, ok := ctxend.Receive(ctx, done, 0); ok {
		return err
	}
	revoked := c.revoke()
	// The work itself may wait once.
	if err, ok := ctxend.Receive(ctx, done, settle+settle/2); ok {
		if errors.Is(err, errAbandoned) {
			return ctxend.Error(ctx)
		}
		return err
	}
	if revoked {
		unlock()
		return ctxend.Error(ctx)
	}
	return fmt.Errorf("%w: %w", ErrUncertain, ctxend.Error(ctx))
}

package inflight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/util/ctxend"
)

// A Claim is the right of work to change the mount table. The zero value is free.
type Claim struct {
	state atomic.Int32
	// MustNotWait: the work runs in its caller's goroutine, whose context ends.
	MustNotWait bool
}

const (
	claimFree int32 = iota
	claimAcquired
	claimRevoked
)

// Acquire reports whether the work may change the mount table, from now on. It returns false
// if the caller has revoked the claim.
func (c *Claim) Acquire() bool {
	return c.state.CompareAndSwap(claimFree, claimAcquired) || c.state.Load() == claimAcquired
}

// revoke reports whether the claim was free. Afterwards the work cannot acquire the claim.
func (c *Claim) revoke() bool { return c.state.CompareAndSwap(claimFree, claimRevoked) }

// ErrRevoked is the error of work whose claim was revoked.
var ErrRevoked = errors.New("the call was abandoned")

// RunClaimed runs work and returns soon after ctx ends, with an uncertain error if the work
// has acquired its claim and is still running. It calls unlock once: when the work has ended,
// or when its claim is revoked.
func RunClaimed(ctx context.Context, unlock func(), work func(*Claim) error) error {
	c := new(Claim)
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
	const longer = Grace + Grace/2 // the work may wait for a call by Await
	if err, ok := ctxend.Receive(ctx, done, longer); ok {
		if errors.Is(err, ErrRevoked) {
			return ctxend.Error(ctx)
		}
		return err
	}
	if revoked {
		unlock()
		return ctxend.Error(ctx)
	}
	return failure.AsUncertain(ctxend.Error(ctx))
}

package mount

import (
	"context"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
)

// settle is how long a caller whose context has ended waits for the kernel: it
// needs microseconds, or is stuck. What it has open until then would keep the
// target busy for the next call.
const settle = 50 * time.Millisecond

// await calls the kernel in a goroutine of its own, if the context can end, and
// returns soon after it does. What arrives later is given to late, which must undo
// it.
func await[T any](ctx context.Context, call func() (T, error), late func(T, error)) (T, error) {
	if ctx.Done() == nil {
		return call()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result)
	gone := make(chan struct{})
	go func() {
		value, err := call()
		select {
		case done <- result{value, err}:
		case <-gone:
			late(value, err)
		}
	}()
	if r, ok := ctxend.Receive(ctx, done, settle); ok {
		return r.value, r.err
	}
	close(gone)
	var none T
	return none, ctxend.Error(ctx)
}

package mount

import (
	"context"
	"time"
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
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
	}
	close(gone)
	var none T
	return none, contextError(ctx)
}

// Package ctxend bounds calls by their contexts: the error of a call whose context has
// ended, and calls that may never return, such as system calls on a hung file system.
//
// A call keeps to its context if it returns within 100 ms of the context's end. Each layer
// waits for the layer below and leaves half of the rest to the layer above: [Kernel] for
// system calls, [Plugin] for calls made of those, [Controller] for calls of plugins.
package ctxend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Grace periods: the time for which a call waits for its work after the end of its
// context, by layer. Work that is not stuck ends within microseconds, and then its own
// result counts.
const (
	Kernel     = 50 * time.Millisecond
	Plugin     = 75 * time.Millisecond
	Controller = 87 * time.Millisecond
)

// Error returns an error that wraps ctx.Err() and ctx's cause. The context must have
// ended.
func Error(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// Sleep waits for d, or until ctx ends. It returns nil, or [Error] of ctx if ctx has ended:
// also if d has passed as well.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return Error(ctx)
	}
	return nil
}

// Receive waits for a value until ctx ends, and for grace after that. It reports whether
// it received a value or the channel was closed. A value that is ready when ctx ends is
// received also without grace.
func Receive[T any](ctx context.Context, from <-chan T, grace time.Duration) (value T, ok bool) {
	select {
	case value = <-from:
		return value, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case value = <-from:
		return value, true
	case <-timer.C:
	}
	select {
	case value = <-from:
		return value, true
	default:
		return value, false
	}
}

// Package ctxend is about the ends of contexts: what a call returns then, and how it
// waits until then for what may never come.
package ctxend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error returns an error that is ctx.Err() as well as ctx's cause, to errors.Is. The
// context must have ended.
func Error(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// Receive waits for a value until ctx ends, and for as long as grace after that, and
// reports whether there was one. That the channel is closed counts as one. What has
// come by the time that ctx ends is received, without grace, too.
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

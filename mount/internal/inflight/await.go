package inflight

import (
	"context"

	"github.com/volumekit/volumekit/util/ctxend"
)

// Grace is the time that a call waits after the end of its context for a system call in flight.
// A system call takes microseconds unless it hangs. A caller that returned at once would leave
// descriptors open that keep its target busy for the next call.
const Grace = ctxend.Kernel

// Await runs call, and returns within [Grace] of the end of ctx. If ctx can end, the call runs in
// a goroutine of its own. late receives a result that comes after the return, and reverts the
// call.
func Await[T any](ctx context.Context, call func() (T, error), late func(T, error)) (T, error) {
	return ctxend.Await(ctx, Grace, call, late)
}

package mountcheck

import (
	"context"
	"time"
)

// PathTimeout limits the check of a path that needs a response of a file system.
const PathTimeout = 2 * time.Second

// pathDeadlines returns a function that returns a context for one short call. Consecutive calls
// share a context, and each has at least half of PathTimeout. stop ends the last context.
func pathDeadlines(ctx context.Context) (next func() context.Context, stop func()) {
	current, cancel, until := ctx, func() {}, time.Time{}
	next = func() context.Context {
		if time.Until(until) < PathTimeout/2 {
			cancel()
			until = time.Now().Add(PathTimeout)
			current, cancel = context.WithDeadline(ctx, until)
		}
		return current
	}
	return next, func() { cancel() }
}

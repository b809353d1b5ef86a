package provision

import (
	"context"
	"slices"
	"sync"
)

// A limiter limits the calls of the storage at the same time. The limit halves after a round of calls
// of which most failed, down to 1, and doubles after any other round, up to the configured limit. A
// round has as many calls as the limit at its end: some failing claims do not slow down the others,
// and an outage of the storage ends most calls.
type limiter struct {
	most int

	mu      sync.Mutex
	limit   int
	busy    int
	waiting []chan struct{}
	good    int // calls of this round that did not fail
	failed  int
}

func newLimiter(most int) *limiter { return &limiter{most: most, limit: most} }

// acquire waits for the permission of a call, or returns the cause of ctx. A permission ends with
// release.
func (l *limiter) acquire(ctx context.Context) error {
	turn := make(chan struct{})
	l.mu.Lock()
	l.waiting = append(l.waiting, turn)
	l.grant()
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, turn); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else { // granted meanwhile
		l.busy--
		l.grant()
	}
	return context.Cause(ctx)
}

// isFull reports whether a call waits for its permission.
func (l *limiter) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0
}

// release ends a call. failed states whether the storage failed to serve the call.
func (l *limiter) release(failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	if failed {
		l.failed++
	} else {
		l.good++
	}
	if l.good+l.failed >= l.limit {
		l.endRound()
	}
	l.grant()
}

// endRound adapts the limit. The caller holds mu.
func (l *limiter) endRound() {
	if l.failed > l.good {
		l.limit = max(1, l.limit/2)
	} else {
		l.limit = min(l.most, 2*l.limit)
	}
	l.good, l.failed = 0, 0
}

// grant permits waiting calls up to the limit, the first one first. The caller holds mu.
func (l *limiter) grant() {
	for l.busy < l.limit && len(l.waiting) > 0 {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.busy++
	}
}

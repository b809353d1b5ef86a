package scrub

import (
	"context"
	"sync"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
)

// A limiter limits a rate. A nil limiter does not limit.
type limiter struct {
	each time.Duration
	mu   sync.Mutex
	next time.Time
}

// ahead is the tolerated advance: sleeping for a shorter time costs more than it gains.
const ahead = 5 * time.Millisecond

func newLimiter(perSecond int) *limiter {
	if perSecond == 0 {
		return nil
	}
	return &limiter{each: max(time.Second/time.Duration(perSecond), 1)}
}

func (l *limiter) wait(ctx context.Context) error {
	if l == nil {
		return nil
	}
	early := time.Until(l.turn())
	if early <= ahead {
		return nil
	}
	return ctxend.Sleep(ctx, early)
}

func (l *limiter) turn() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.next.Before(now) {
		l.next = now
	}
	turn := l.next
	l.next = turn.Add(l.each)
	return turn
}

package staging

import (
	"context"
	"sync"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
)

// A Sweep is work that precedes all other work, and runs once. The zero value is ready.
type Sweep struct {
	once sync.Once
	done chan struct{}
}

// maxSweep limits the time that callers wait for a sweep.
const maxSweep = 10 * time.Second

// Do runs work in a goroutine on the first call. Each call waits until work has ended, or
// maxSweep has passed; it fails if ctx ends earlier.
func (s *Sweep) Do(ctx context.Context, work func()) error {
	s.once.Do(func() {
		s.done = make(chan struct{})
		go func() { defer close(s.done); work() }()
	})
	select {
	case <-s.done:
		return nil
	default:
	}
	timer := time.NewTimer(maxSweep)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
	case <-ctx.Done():
		return ctxend.Error(ctx)
	}
	return nil
}

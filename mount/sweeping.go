package mount

import (
	"context"
	"sync"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
)

// sweeping is something that is done once, before anything else, unless it takes
// too long: what a killed process has mounted may be a dead server's.
type sweeping struct {
	once sync.Once
	done chan struct{}
}

// begin does it, the first time.
func (s *sweeping) begin(work func()) {
	s.once.Do(func() {
		s.done = make(chan struct{})
		go func() { defer close(s.done); work() }()
	})
}

// longestSweep is how long the first calls wait for the end.
const longestSweep = 10 * time.Second

// wait waits for the end, but not for ever.
func (s *sweeping) wait(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	default:
	}
	timer := time.NewTimer(longestSweep)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
	case <-ctx.Done():
		return ctxend.Error(ctx)
	}
	return nil
}

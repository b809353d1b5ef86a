package beneath

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
)

// A Gate lets the workers of one call go on, until its context or one of them ends it.
type Gate struct {
	ctx    context.Context
	failed atomic.Bool

	mu  sync.Mutex
	err error // the first
}

func NewGate(ctx context.Context) *Gate { return &Gate{ctx: ctx} }

// Stop ends all workers. The first error of any counts.
func (g *Gate) Stop(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
	g.failed.Store(true)
}

// GoOn is asked before each system call that may wait for a file system.
func (g *Gate) GoOn() bool {
	if g.ctx.Err() != nil {
		g.Stop(ctxend.Error(g.ctx))
	}
	return !g.failed.Load()
}

// Err is what ended the work, nil if nothing did.
func (g *Gate) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Await waits for the end of the work and calls tick every so often, each second for
// 0. When ctx ends it gives workers that are not stuck a moment to end.
func Await(ctx context.Context, done <-chan error, every time.Duration, tick func()) error {
	const grace = 100 * time.Millisecond
	if every == 0 {
		every = time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			tick()
		case <-ctx.Done():
			if err, ok := ctxend.Receive(ctx, done, grace); ok {
				return err
			}
			return ctxend.Error(ctx)
		}
	}
}

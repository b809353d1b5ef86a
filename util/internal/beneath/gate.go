package beneath

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/util/ctxend"
)

// A Gate stops the workers of one call when its context ends or one of them fails.
type Gate struct {
	ctx    context.Context
	failed atomic.Bool

	mu  sync.Mutex
	err error // the first
}

func NewGate(ctx context.Context) *Gate { return &Gate{ctx: ctx} }

// Stop stops all workers. Err returns the first error of all calls.
func (g *Gate) Stop(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
	g.failed.Store(true)
}

// GoOn reports whether to continue. Workers call it before each system call that may wait
// for a file system.
func (g *Gate) GoOn() bool {
	if g.ctx.Err() != nil {
		g.Stop(ctxend.Error(g.ctx))
	}
	return !g.failed.Load()
}

// Err returns the error that ended the work, or nil.
func (g *Gate) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Await waits for the end of the work. When ctx ends it gives workers that are not stuck a grace
// period: half of the time within which a call must return then, so that the caller has the other half.
func Await(ctx context.Context, done <-chan error) error {
	if err, ok := ctxend.Receive(ctx, done, ctxend.Kernel); ok {
		return err
	}
	return ctxend.Error(ctx)
}

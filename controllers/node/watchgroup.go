package node

import (
	"context"
	"sync"
)

// A watchGroup runs watches during its run, each in a goroutine. Watches may be added before, and
// then wait for it. The zero value is not usable, see newWatchGroup.
type watchGroup struct {
	added chan struct{} // wakes run; length 1

	mu      sync.Mutex // never held while a watch runs
	begun   bool
	ended   bool // no further watch starts
	waiting []*groupedWatch
	running sync.WaitGroup
}

// A groupedWatch is a watch of a group. The mu of the group guards it.
type groupedWatch struct {
	run     func(context.Context)
	cancel  context.CancelFunc // nil: not started
	stopped bool
}

func newWatchGroup() *watchGroup { return &watchGroup{added: make(chan struct{}, 1)} }

// begin reports whether the group may run: it runs once.
func (g *watchGroup) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	isFirst := !g.begun
	g.begun = true
	return isFirst
}

// run runs the watches until ctx ends, and returns after all have ended.
func (g *watchGroup) run(ctx context.Context) {
	for g.startWaiting(ctx) {
		select {
		case <-g.added:
		case <-ctx.Done():
		}
	}
	g.running.Wait()
}

// startWaiting starts the added watches. It returns false if ctx has ended: then their context has
// ended as well, and no further watch starts.
func (g *watchGroup) startWaiting(ctx context.Context) (more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = ctx.Err() != nil
	for _, w := range g.waiting {
		own, cancel := context.WithCancel(ctx)
		if w.cancel = cancel; w.stopped {
			cancel()
		}
		g.running.Go(func() {
			defer cancel()
			w.run(own)
		})
	}
	g.waiting = nil
	return !g.ended
}

// add adds a watch, and returns the function that ends it and does not wait for its end. After the
// end of run it calls the watch with a context that has ended, so that reads of it fail. The caller may
// hold locks that the watch does not need without changes of its object.
func (g *watchGroup) add(run func(context.Context)) (stop func()) {
	w := &groupedWatch{run: run}
	if !g.queue(w) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		run(ctx)
		return cancel
	}
	select {
	case g.added <- struct{}{}:
	default:
	}
	return func() { g.stop(w) }
}

// queue returns false after the end of run.
func (g *watchGroup) queue(w *groupedWatch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		g.waiting = append(g.waiting, w)
	}
	return !g.ended
}

func (g *watchGroup) stop(w *groupedWatch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.stopped = true; w.cancel != nil {
		w.cancel()
	}
}

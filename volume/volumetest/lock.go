package volumetest

import (
	"context"
	"sync"
)

// locks holds a lock for each path that was ever locked: few, in a test. The
// zero value is ready for use.
type locks struct {
	mu   sync.Mutex // guards held; never held while waiting
	held map[string]chan struct{}
}

// lock waits for the path's lock as long as ctx lets it.
func (l *locks) lock(ctx context.Context, path string) (unlock func(), err error) {
	held := l.of(path)
	select {
	case held <- struct{}{}:
		return func() { <-held }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *locks) of(path string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	if l.held[path] == nil {
		l.held[path] = make(chan struct{}, 1)
	}
	return l.held[path]
}

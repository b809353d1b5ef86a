package mount

import (
	"context"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/util/ctxend"
)

// ends are the file systems that have been unmounted and have not ended yet, by
// the path at which they were.
type ends struct {
	mu      sync.Mutex
	pending map[string][]<-chan struct{}
}

// add remembers an end until it has come.
func (e *ends) add(path string, ended <-chan struct{}) {
	if isClosed(ended) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pending == nil {
		e.pending = map[string][]<-chan struct{}{}
	}
	e.pending[path] = append(e.pending[path], ended)
	go func() { <-ended; e.at(path) }()
}

func isClosed(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// at returns the ends that are still to come at path, and forgets the others.
func (e *ends) at(path string) []<-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	var pending []<-chan struct{}
	for _, ended := range e.pending[path] {
		if !isClosed(ended) {
			pending = append(pending, ended)
		}
	}
	if len(pending) == 0 {
		delete(e.pending, path)
		return nil
	}
	e.pending[path] = pending
	return pending
}

// below returns the paths at or below dir that have any.
func (e *ends) below(dir string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var paths []string
	for path := range e.pending {
		if _, ok := below(dir, path); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// wait waits for the ends of what was at path.
func (e *ends) wait(ctx context.Context, path string) error {
	for _, ended := range e.at(path) {
		if err := awaitEnd(ctx, ended); err != nil {
			return err
		}
	}
	return nil
}

// waitBelow waits for the ends of what was at dir and below it.
func (e *ends) waitBelow(ctx context.Context, dir string) error {
	for _, path := range e.below(dir) {
		if err := e.wait(ctx, path); err != nil {
			return wrap("unmount", "", path, err)
		}
	}
	return nil
}

func awaitEnd(ctx context.Context, ended <-chan struct{}) error {
	if _, ok := ctxend.Receive(ctx, ended, settle); ok {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotEnded, ctxend.Error(ctx))
}

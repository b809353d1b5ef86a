// Package sharedlist reads lists from the API server once for many callers, none of which receives a list
// that is older than its call.
package sharedlist

import (
	"context"
	"sync"
)

// Lists reads lists from the API server for many callers. A caller receives the first list that
// begins after its call, with all callers that came meanwhile. Read must be set; the methods are safe
// for concurrent use.
type Lists[T any] struct {
	// Read reads a list of a namespace from the API server.
	Read func(ctx context.Context, namespace string) (T, error)

	mu      sync.Mutex
	current map[string]*shared[T] // the list that runs for a namespace
	next    map[string]*shared[T] // the one that has not begun
}

// A shared is one list for several callers.
type shared[T any] struct {
	done   chan struct{} // closed when the other fields are set
	result T
	err    error
	// isAbandoned: the context of the caller that had to read the list has ended.
	isAbandoned bool
}

// Get returns a list of a namespace that is not older than the call, or the error of the API server. It
// returns the cause of ctx if ctx ends first.
func (s *Lists[T]) Get(ctx context.Context, namespace string) (T, error) {
	for {
		list, isFirst := s.join(namespace)
		if isFirst {
			s.fill(ctx, namespace, list)
			return list.result, list.err
		}
		select {
		case <-list.done:
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
		if !list.isAbandoned {
			return list.result, list.err
		}
	}
}

// fill reads a list after the end of the list that runs. It abandons the list if ctx ends: the other
// callers begin another one.
func (s *Lists[T]) fill(ctx context.Context, namespace string, list *shared[T]) {
	for before := s.begin(namespace, list); before != nil; before = s.begin(namespace, list) {
		select {
		case <-before.done:
		case <-ctx.Done():
			list.err, list.isAbandoned = context.Cause(ctx), true
			s.end(s.next, namespace, list)
			return
		}
	}
	list.isAbandoned = true // also after a panic
	defer s.end(s.current, namespace, list)
	list.result, list.err = s.Read(ctx, namespace)
	list.isAbandoned = ctx.Err() != nil
}

// join returns the next list of a namespace. isFirst is true for the caller that has to read it.
func (s *Lists[T]) join(namespace string) (list *shared[T], isFirst bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next, s.current = map[string]*shared[T]{}, map[string]*shared[T]{}
	}
	if list = s.next[namespace]; list == nil {
		list, isFirst = &shared[T]{done: make(chan struct{})}, true
		s.next[namespace] = list
	}
	return list, isFirst
}

// begin makes the next list the current one, and later callers wait for another one. If a list runs,
// begin returns it instead.
func (s *Lists[T]) begin(namespace string, list *shared[T]) (before *shared[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before = s.current[namespace]; before == nil {
		s.current[namespace] = list
		delete(s.next, namespace)
	}
	return before
}

// end removes a list from lists, which are s.current or s.next, and passes it to its callers.
func (s *Lists[T]) end(lists map[string]*shared[T], namespace string, list *shared[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(lists, namespace)
	close(list.done)
}

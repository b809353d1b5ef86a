package provision

import (
	"context"
	"sync"
)

// sharedLists reads lists from the API server for many callers. A caller receives the first list that
// begins after its call, with all callers that came meanwhile.
type sharedLists[T any] struct {
	read func(ctx context.Context, namespace string) (T, error)

	mu      sync.Mutex
	current map[string]*sharedList[T] // the list that runs for a namespace
	next    map[string]*sharedList[T] // the one that has not begun
}

// A sharedList is one list for several callers.
type sharedList[T any] struct {
	done   chan struct{} // closed when result and err are set
	result T
	err    error
}

// get returns a list of a namespace that is not older than the call. It returns the error of the API
// server, or of the ctx of the caller that reads the list.
func (s *sharedLists[T]) get(ctx context.Context, namespace string) (T, error) {
	list, isFirst := s.join(namespace)
	if isFirst {
		before := s.begin(namespace, list)
		for before != nil {
			<-before.done
			before = s.begin(namespace, list)
		}
		list.result, list.err = s.read(ctx, namespace)
		s.end(namespace, list)
	}
	<-list.done
	return list.result, list.err
}

// join returns the next list of a namespace. isFirst is true for the caller that has to read it.
func (s *sharedLists[T]) join(namespace string) (list *sharedList[T], isFirst bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next, s.current = map[string]*sharedList[T]{}, map[string]*sharedList[T]{}
	}
	if list = s.next[namespace]; list == nil {
		list, isFirst = &sharedList[T]{done: make(chan struct{})}, true
		s.next[namespace] = list
	}
	return list, isFirst
}

// begin makes the next list the current one, and later callers wait for another one. If a list runs,
// begin returns it instead.
func (s *sharedLists[T]) begin(namespace string, list *sharedList[T]) (before *sharedList[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before = s.current[namespace]; before == nil {
		s.current[namespace] = list
		delete(s.next, namespace)
	}
	return before
}

func (s *sharedLists[T]) end(namespace string, list *sharedList[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.current, namespace)
	close(list.done)
}

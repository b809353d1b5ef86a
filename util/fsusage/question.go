package fsusage

import (
	"context"
	"errors"
	"sync"
)

// A place identifies the object of a query: a path, the mount at the path, and the inode of
// a device; zero for unknown values.
type place struct {
	path        string
	mount, node uint64
}

// A query is a system call in flight. Its result may be read once done is closed.
type query[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// queries holds the system calls in flight, one for each place. The zero value is ready
// for use.
type queries[T any] struct {
	mu    sync.Mutex // guards asked
	asked map[place]*query[T]
}

// errNoAnswer reports that ctx has ended first.
var errNoAnswer = errors.New("no answer")

// wait waits for the result until ctx ends.
func (s *queries[T]) wait(ctx context.Context, at place, call func(path string) (T, error)) (T, error) {
	q := s.join(at, call)
	select {
	case <-q.done:
		return q.answer, q.err
	case <-ctx.Done():
		var none T
		return none, errNoAnswer
	}
}

// join returns the call in flight for the place, or starts one.
func (s *queries[T]) join(at place, call func(path string) (T, error)) *query[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, ok := s.asked[at]; ok {
		return q
	}
	if s.asked == nil {
		s.asked = map[place]*query[T]{}
	}
	q := &query[T]{done: make(chan struct{})}
	s.asked[at] = q
	go func() {
		q.answer, q.err = call(at.path)
		s.mu.Lock()
		delete(s.asked, at)
		s.mu.Unlock()
		close(q.done)
	}()
	return q
}

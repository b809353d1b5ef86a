package fsusage

import (
	"context"
	"errors"
	"sync"
)

// A place is what is asked: a path, and what is known of it without asking, zero if
// that is nothing: the mount that it leads to, and of a device its node.
type place struct {
	path        string
	mount, node uint64
}

// A question is a system call under way. Its answer may be read once done is closed.
type question[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// questions are those under way: one for each place. The zero value is ready for use.
type questions[T any] struct {
	mu    sync.Mutex // guards asked
	asked map[place]*question[T]
}

// errNoAnswer: ctx has ended first.
var errNoAnswer = errors.New("no answer")

// ask waits for the answer until ctx ends.
func (s *questions[T]) ask(ctx context.Context, at place, call func(path string) (T, error)) (T, error) {
	q := s.join(at, call)
	select {
	case <-q.done:
		return q.answer, q.err
	case <-ctx.Done():
		var none T
		return none, errNoAnswer
	}
}

// join joins the question about the place that is under way, or asks it.
func (s *questions[T]) join(at place, call func(path string) (T, error)) *question[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, ok := s.asked[at]; ok {
		return q
	}
	if s.asked == nil {
		s.asked = map[place]*question[T]{}
	}
	q := &question[T]{done: make(chan struct{})}
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

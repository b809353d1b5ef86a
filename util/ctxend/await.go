package ctxend

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// Await runs work in a goroutine of its own and returns the result of work. If ctx ends
// first, Await returns [Error] of ctx at most grace later; work continues, and late, if it
// is not nil, receives the result of work and must undo it. If ctx cannot end, Await calls
// work in the caller's goroutine.
//
// A panic of work becomes a [*Panic] in the caller's goroutine; late receives it as its
// error. Await calls work even if ctx has ended. Callers that make such calls again and
// again bound the number of stuck goroutines with a lock that work releases.
func Await[T any](ctx context.Context, grace time.Duration, work func() (T, error), late func(T, error)) (T, error) {
	if ctx.Done() == nil {
		return work()
	}
	done, gone := make(chan result[T]), make(chan struct{})
	go run(work, func(r result[T]) {
		select {
		case done <- r:
		case <-gone:
			if late != nil {
				late(r.value, r.lateError())
			}
		}
	})
	if r, ok := Receive(ctx, done, grace); ok {
		return r.unpack()
	}
	close(gone)
	var none T
	return none, Error(ctx)
}

// A Panic is the panic of work that ran in another goroutine.
type Panic struct {
	Value any
	Stack []byte // of that goroutine
}

// Error returns the value and the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// Unwrap returns the value, if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// A result is the end of work: its values, its panic, or runtime.Goexit.
type result[T any] struct {
	value    T
	err      error
	panicked *Panic
	exited   bool
}

// run passes the result of work to deliver, also if work calls runtime.Goexit, as tests do.
func run[T any](work func() (T, error), deliver func(result[T])) {
	r := result[T]{exited: true}
	defer func() {
		if value := recover(); value != nil {
			r.panicked = &Panic{value, debug.Stack()}
		}
		deliver(r)
	}()
	r.value, r.err = work()
	r.exited = false
}

func (r result[T]) unpack() (T, error) {
	switch {
	case r.panicked != nil:
		panic(r.panicked)
	case r.exited:
		runtime.Goexit()
	}
	return r.value, r.err
}

func (r result[T]) lateError() error {
	if r.panicked != nil {
		return r.panicked
	}
	return r.err
}

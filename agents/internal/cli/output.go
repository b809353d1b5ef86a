package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// An Output is a program's standard output. It is safe for concurrent use.
type Output struct {
	out  io.Writer
	stop context.CancelCauseFunc
	// stopWatch ends the wait for the end of the reader. It is nil if out is no pipe.
	stopWatch func()

	mu  sync.Mutex // guards err, and serialises writes
	err error
}

// NewOutput returns an Output, and a context that ends when writing to out fails, as to a
// full disk, or when out is a pipe without a reader. The cause of the context is the error.
func NewOutput(ctx context.Context, out io.Writer) (context.Context, *Output) {
	ctx, stop := context.WithCancelCause(ctx)
	o := &Output{out: out, stop: stop}
	if f, ok := out.(*os.File); ok {
		o.stopWatch = watchReader(f, func() { o.fail(syscall.EPIPE) })
	}
	return ctx, o
}

func (o *Output) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failLocked(err)
}

func (o *Output) failLocked(err error) {
	if o.err == nil {
		o.err = fmt.Errorf("standard output: %w", err)
		o.stop(o.err)
	}
}

// Write implements [io.Writer]. After a failed write it fails at once.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.out.Write(p)
	if err != nil {
		o.failLocked(err)
	}
	return n, o.err
}

// Err returns the error of the first write that failed.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Unwrap returns the writer under the Output.
func (o *Output) Unwrap() io.Writer { return o.out }

// Close ends the context, and all use of out. It does not close out.
func (o *Output) Close() {
	o.stop(nil)
	if o.stopWatch != nil {
		o.stopWatch()
	}
}

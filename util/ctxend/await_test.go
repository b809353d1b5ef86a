package ctxend_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/ctxend"
)

func TestAwait(t *testing.T) {
	for name, ctx := range map[string]context.Context{"no end": context.Background(), "an end": t.Context()} {
		value, err := ctxend.Await(ctx, 0, func() (int, error) { return 7, errCause }, nil)
		require.Equal(t, 7, value, name)
		require.Equal(t, errCause, err, name)
	}
}

// TestAwaitReturnsAfterGrace: Await returns at the end of the grace, and late receives a later result.
func TestAwaitReturnsAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(errCause) })
		late := make(chan string, 1)
		begin := time.Now()
		value, err := ctxend.Await(ctx, ctxend.Kernel, func() (int, error) {
			time.Sleep(time.Hour)
			return 7, errors.New("hung")
		}, func(value int, err error) { late <- fmt.Sprint(value, err) })
		require.Equal(t, time.Minute+ctxend.Kernel, time.Since(begin))
		require.Zero(t, value)
		require.ErrorIs(t, err, errCause)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, "7 hung", <-late)
	})
}

// TestAwaitPanic: a panic of work reaches the caller; a late one does not crash the
// program.
func TestAwaitPanic(t *testing.T) {
	func() {
		defer func() {
			p, ok := recover().(*ctxend.Panic)
			require.True(t, ok)
			require.ErrorIs(t, p, errCause)
			require.Contains(t, p.Error(), "await_test.go")
		}()
		_, _ = ctxend.Await(t.Context(), 0, func() (int, error) { panic(errCause) }, nil)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	end, late := make(chan struct{}), make(chan error)
	_, err := ctxend.Await(ctx, 0, func() (int, error) { <-end; panic(errCause) }, func(_ int, err error) { late <- err })
	require.ErrorIs(t, err, context.Canceled)
	close(end)
	require.ErrorIs(t, <-late, errCause)
}

// TestAwaitGoexit: work that ends its goroutine ends the caller's, too.
func TestAwaitGoexit(t *testing.T) {
	ended := make(chan bool)
	go func() {
		defer close(ended)
		_, _ = ctxend.Await(t.Context(), 0, func() (int, error) { runtime.Goexit(); return 0, nil }, nil)
		ended <- false
	}()
	_, returned := <-ended
	require.False(t, returned)
}

func ExampleAwait() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := ctxend.Await(ctx, ctxend.Kernel, func() (int, error) {
		select {} // a system call that does not return
	}, nil)
	fmt.Println(err)
	// Output: context deadline exceeded
}

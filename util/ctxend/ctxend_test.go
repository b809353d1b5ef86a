package ctxend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/ctxend"
)

var errCause = errors.New("cause")

func TestError(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	require.ErrorIs(t, ctxend.Error(ctx), errCause)
	require.ErrorIs(t, ctxend.Error(ctx), context.Canceled)
	ctx, end := context.WithTimeout(t.Context(), 0)
	defer end()
	require.Equal(t, context.DeadlineExceeded, ctxend.Error(ctx))
	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("it was %w", context.Canceled))
	require.EqualError(t, ctxend.Error(ctx), "it was context canceled")
}

func TestReceive(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	full := make(chan int, 1)
	closed := make(chan int)
	close(closed)
	for _, ctx := range []context.Context{t.Context(), ended} {
		for _, grace := range []time.Duration{0, time.Hour} {
			for range 100 { // select chooses at random
				full <- 7
				value, ok := ctxend.Receive(ctx, full, grace)
				require.True(t, ok)
				require.Equal(t, 7, value)
				_, ok = ctxend.Receive(ctx, closed, grace)
				require.True(t, ok)
			}
		}
	}
	_, ok := ctxend.Receive(ended, full, time.Millisecond)
	require.False(t, ok)
	later := make(chan int)
	go func() { later <- 8 }()
	value, ok := ctxend.Receive(ended, later, time.Minute)
	require.True(t, ok, "it comes within the grace")
	require.Equal(t, 8, value)
}

func ExampleReceive() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	never := make(chan error)
	if _, ok := ctxend.Receive(ctx, never, 0); !ok {
		fmt.Println(ctxend.Error(ctx))
	}
	// Output: context deadline exceeded
}

// TestSleep: the time passes, or the context ends, first or at the same time.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		require.NoError(t, ctxend.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(begin))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, ctxend.Sleep(ctx, time.Hour), context.DeadlineExceeded)
		require.Equal(t, time.Minute+time.Second, time.Since(begin))
		for range 100 { // select picks at random
			require.ErrorIs(t, ctxend.Sleep(ctx, 0), context.DeadlineExceeded)
		}
	})
}

package provision

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestLimiter: the limit halves after a round of calls of which most fail, and doubles after others.
func TestLimiter(t *testing.T) {
	l := newLimiter(8)
	round := func(failed, good int) int {
		for range failed + good {
			require.NoError(t, l.acquire(t.Context()))
		}
		for range failed {
			l.release(true)
		}
		for range good {
			l.release(false)
		}
		return l.limit
	}
	require.Equal(t, 8, round(1, 7), "some failing claims do not slow down the others")
	require.Equal(t, 8, round(4, 4))
	require.Equal(t, 4, round(8, 0))
	require.Equal(t, 2, round(3, 1))
	require.Equal(t, 1, round(2, 0))
	require.Equal(t, 1, round(1, 0))
	require.Equal(t, 2, round(0, 1))
	require.Equal(t, 4, round(0, 2))
}

func TestLimiterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(2)
		entered := make(chan int, 10)
		for n := range 4 {
			go func() {
				if l.acquire(t.Context()) == nil {
					entered <- n
				}
			}()
			synctest.Wait()
		}
		require.Len(t, entered, 2)
		require.True(t, l.isFull())
		l.release(false)
		synctest.Wait()
		require.Len(t, entered, 3)
		<-entered
		<-entered
		require.Equal(t, 2, <-entered, "the first one first")

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.acquire(ctx) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		l.release(false)
		l.release(false)
		synctest.Wait()
		require.Equal(t, 3, <-entered)
		require.Equal(t, 1, l.busy, "a call that no longer waits gets no permission")
		require.Empty(t, l.waiting)
		require.False(t, l.isFull())
	})
}

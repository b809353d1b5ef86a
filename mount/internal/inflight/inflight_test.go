package inflight

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
)

var errWork = errors.New("work")

func TestRunClaimed(t *testing.T) {
	for name, ctx := range map[string]context.Context{"no end": context.Background(), "an end": t.Context()} {
		unlocked := 0
		err := RunClaimed(ctx, func() { unlocked++ }, func(c *Claim) error {
			assert.Zero(t, unlocked)
			assert.True(t, c.Acquire())
			assert.True(t, c.Acquire(), "Acquire is idempotent")
			return errWork
		})
		require.Equal(t, errWork, err, name)
		require.Equal(t, 1, unlocked, name)
	}
}

// TestRunClaimedReturnsEarly: work that hangs before its change is revoked, and the lock is
// released; work that hangs in its change is uncertain and keeps the lock.
func TestRunClaimedReturnsEarly(t *testing.T) {
	for _, acquires := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var unlocked atomic.Int32
			late := make(chan bool, 1)
			begin := time.Now()
			err := RunClaimed(ctx, func() { unlocked.Add(1) }, func(c *Claim) error {
				if acquires {
					assert.True(t, c.Acquire())
				}
				time.Sleep(time.Hour)
				late <- c.Acquire()
				return nil
			})
			require.Equal(t, time.Second+Grace+Grace/2, time.Since(begin))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, acquires, errors.Is(err, failure.ErrUncertain))
			require.Equal(t, acquires, unlocked.Load() == 0)
			require.Equal(t, acquires, <-late)
			synctest.Wait()
			require.EqualValues(t, 1, unlocked.Load())
		})
	}
}

// TestRevokedWorkReturnsContextError: the error of work that ends within the grace is that of
// the context, if the work was revoked, and its own otherwise.
func TestRevokedWorkReturnsContextError(t *testing.T) {
	for _, result := range []error{nil, errWork, ErrRevoked} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := RunClaimed(ctx, func() {}, func(c *Claim) error {
				time.Sleep(time.Second + Grace)
				assert.False(t, c.Acquire())
				return result
			})
			want := result
			if errors.Is(result, ErrRevoked) {
				want = context.DeadlineExceeded
			}
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, failure.ErrUncertain)
		})
	}
}

func TestLease(t *testing.T) {
	unlocked := 0
	l := NewLease(func() { unlocked++ })
	l.Share()
	l.Release()
	require.Zero(t, unlocked)
	l.Release()
	require.Equal(t, 1, unlocked)
}

// TestAwait: Await passes a result after the grace period to late.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin, late := time.Now(), make(chan int, 1)
		_, err := Await(ctx, func() (int, error) { time.Sleep(time.Hour); return 7, nil }, func(n int, _ error) { late <- n })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second+Grace, time.Since(begin))
		require.Equal(t, 7, <-late)
	})
}

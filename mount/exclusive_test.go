package mount

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAbandonedWork: a caller whose context ends returns; the work goes on, may
// change nothing any more, and therefore holds up no other change.
func TestAbandonedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{})
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		kernel := make(chan struct{})
		took := make(chan bool, 1)
		err := m.exclusively(ctx, "/t", func(c *claim) error {
			<-kernel
			took <- c.take()
			return nil
		})
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrUncertain, "nothing was changed and nothing will be")
		require.NoError(t, m.exclusively(t.Context(), "/t", func(c *claim) error {
			require.True(t, c.take())
			require.True(t, c.take(), "again, for a second try")
			return nil
		}))
		close(kernel)
		require.False(t, <-took, "late work must not change the world")
		synctest.Wait()
		require.Zero(t, m.changing.Len())
	})
}

// TestChangeUnderWay: a caller whose context ends while the kernel is at the
// change learns that it does not know.
func TestChangeUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{})
		for _, test := range []struct {
			takes time.Duration
			want  error
		}{
			{time.Millisecond, nil},
			{time.Hour, ErrUncertain},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			begin := time.Now()
			err := m.exclusively(ctx, "/t", func(c *claim) error {
				require.True(t, c.take())
				cancel()
				time.Sleep(test.takes)
				return nil
			})
			require.ErrorIs(t, err, test.want)
			require.LessOrEqual(t, time.Since(begin), 100*time.Millisecond)
			if test.want != nil {
				later, cancel := context.WithTimeout(t.Context(), time.Second)
				overtake := func(*claim) error { t.Error("it overtook a change that was under way"); return nil }
				require.ErrorIs(t, m.exclusively(later, "/t", overtake), context.DeadlineExceeded)
				require.NoError(t, m.exclusively(t.Context(), "/other", func(*claim) error { return nil }))
				cancel()
			}
			time.Sleep(test.takes)
			synctest.Wait()
		}
		require.Zero(t, m.changing.Len())
	})
}

package beneath

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAwaitReturnsDuringWork: workers that do not end get half of the 100 ms within which a call
// must return after the end of its context; the result of workers that end in time counts.
func TestAwaitReturnsDuringWork(t *testing.T) {
	errWork := errors.New("work")
	for name, test := range map[string]struct {
		after time.Duration // the end of the context; 0: never
		took  time.Duration
		want  error
	}{
		"stuck": {0, 50 * time.Millisecond, context.Canceled},
		"slow":  {60 * time.Millisecond, 50 * time.Millisecond, context.Canceled},
		"usual": {10 * time.Millisecond, 10 * time.Millisecond, errWork},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				done := make(chan error, 1)
				if test.after > 0 {
					time.AfterFunc(test.after, func() { done <- errWork })
				}
				begin := time.Now()
				require.ErrorIs(t, Await(ctx, done), test.want)
				require.Equal(t, test.took, time.Since(begin))
			})
		})
	}
}

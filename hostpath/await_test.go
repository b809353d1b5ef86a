package hostpath

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
)

// TestAwait: whoever gives up does so at once, and what comes later is taken back before
// anybody else has a turn.
func TestAwait(t *testing.T) {
	n, err := await(t.Context(), func() (int, error) { return 1, nil }, func(int, error) { t.Error("it was in time") }, func() {})
	require.NoError(t, err)
	require.Equal(t, 1, n)

	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	answer, order := make(chan struct{}), make(chan string, 2)
	go func() {
		time.Sleep(time.Millisecond)
		cancel(cause)
	}()
	_, err = await(ctx, func() (int, error) { <-answer; return 2, nil },
		func(n int, _ error) { require.Equal(t, 2, n); order <- "late" }, func() { order <- "end" })
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.Empty(t, order)
	close(answer)
	require.Equal(t, "late", <-order)
	require.Equal(t, "end", <-order)
}

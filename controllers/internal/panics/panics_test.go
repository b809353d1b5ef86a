package panics

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
)

// TestAsUncertain: a panic is an uncertain error and a line of the log; without a panic the error stays.
func TestAsUncertain(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	call := func(logger *slog.Logger, f func() error) (err error) {
		defer AsUncertain(&err, logger, "of", "Expander")
		return f()
	}
	failure := errors.New("broken")
	require.Equal(t, failure, call(logger, func() error { return failure }))
	require.Empty(t, log.String())
	for _, l := range []*slog.Logger{logger, nil} {
		err := call(l, func() error { panic("a bug") })
		require.EqualError(t, err, "panic: a bug")
		require.Equal(t, volume.Uncertain, volume.KindOf(err))
	}
	require.Regexp(t, `(?s)^time=.* level=ERROR msg=panic of=Expander panic="a bug" stack=".*TestAsUncertain.*"\n$`, log.String())
}

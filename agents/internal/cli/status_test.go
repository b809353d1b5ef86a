package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatus(t *testing.T) {
	failure := errors.New("a\nb")
	for name, test := range map[string]struct {
		status func(program string, err error, stderr io.Writer) int
		err    error
		want   int
		prints string
	}{
		"help":    {UsageStatus, flag.ErrHelp, 0, ""},
		"usage":   {UsageStatus, failure, 2, "program: a b; see -help\n"},
		"success": {ExitStatus, nil, 0, ""},
		"failure": {ExitStatus, failure, 1, "program: a b\n"},
	} {
		var stderr strings.Builder
		require.Equal(t, test.want, test.status("program", test.err, &stderr), name)
		require.Equal(t, test.prints, stderr.String(), name)
	}
}

// TestRunAll: the end of a task ends the others, and so does the end of the context. Errors of an ended
// context are none of the tasks.
func TestRunAll(t *testing.T) {
	failure, cause := errors.New("failure"), errors.New("cause")
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	require.NoError(t, RunAll(t.Context()))
	require.NoError(t, RunAll(t.Context(), wait, func(context.Context) error { return nil }, wait))
	require.ErrorIs(t, RunAll(t.Context(), wait, func(context.Context) error { return failure }), failure)

	ctx, cancel := context.WithCancelCause(t.Context())
	err := RunAll(ctx, wait, func(ctx context.Context) error {
		cancel(cause)
		<-ctx.Done()
		return errors.Join(failure)
	}, wait)
	require.ErrorIs(t, err, failure)
	require.NotErrorIs(t, err, cause)
}

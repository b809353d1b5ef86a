package cli

import (
	"context"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReaderGoes: a program that has nothing to print notices, too.
func TestReaderGoes(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	ctx, out := NewOutput(t.Context(), w)
	_, err = out.Write([]byte("a"))
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	require.NoError(t, r.Close())
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), syscall.EPIPE)
	require.ErrorIs(t, out.Err(), syscall.EPIPE)
	require.NoError(t, w.Close())
}

// TestOutputEnds: a closed Output keeps no pipe open, and looks at no other file with the number of the pipe.
func TestOutputEnds(t *testing.T) {
	for range 100 {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		ctx, out := NewOutput(t.Context(), w)
		out.Close()
		out.Close()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		require.NoError(t, w.Close())
		// The end of the pipe comes at once; without it the test ends in time.
		require.NoError(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err = r.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, r.Close())
	}
}

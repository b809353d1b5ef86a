package cli

import (
	"context"
	"os"
	"syscall"
	"testing"

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

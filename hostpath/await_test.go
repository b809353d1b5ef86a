package hostpath

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// TestAwait: whoever gives up does so at once, and what comes later is given back before
// anybody else has a turn.
func TestAwait(t *testing.T) {
	n, err := await(t.Context(), func() (int, error) { return 1, nil }, func(int) { t.Error("it was in time") }, func() {})
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
		func(n int) { require.Equal(t, 2, n); order <- "late" }, func() { order <- "end" })
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.Empty(t, order)
	close(answer)
	require.Equal(t, "late", <-order)
	require.Equal(t, "end", <-order)
}

// TestPrepareTooLate: what nobody waits for any more is not created.
func TestPrepareTooLate(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, kind := range []v1.HostPathType{v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate} {
		_, err := source{path: root + "/new", root: root, kind: kind}.prepare(ctx)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoFileExists(t, root+"/new")
		require.NoDirExists(t, root+"/new")
	}
}

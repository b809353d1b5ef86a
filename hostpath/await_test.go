package hostpath

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// TestAwait checks that a caller whose context ends returns at once, and that a late result
// is released before the next caller's turn.
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

// TestPrepareTooLate checks that prepare creates nothing after its context has ended.
func TestPrepareTooLate(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	p := New(Config{Mounter: mounttest.NewFake(mount.Config{}), Roots: []string{root}})
	require.NoError(t, p.Init(t.Context(), host))
	for _, kind := range []v1.HostPathType{v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate} {
		_, err := p.prepare(ctx, source{path: root + "/new", kind: kind})
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoFileExists(t, root+"/new")
		require.NoDirExists(t, root+"/new")
	}
}

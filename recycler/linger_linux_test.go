package recycler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/util/scrub"
)

// TestVolumeIsLockedByWorker checks that the volume is locked as long as a worker removes
// entries in it, also after the end of the worker's call.
func TestVolumeIsLockedByWorker(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	at := dir + "/scrub"
	require.NoError(t, os.Mkdir(at, 0o755))
	require.NoError(t, unix.Mount("tmpfs", at, "tmpfs", 0, ""))
	defer func() { _ = unix.Unmount(at, unix.MNT_DETACH) }()
	for i := range 1000 {
		require.NoError(t, os.WriteFile(fmt.Sprint(at, "/", i), nil, 0o600))
	}
	var l Local
	w := &work{Local: &l, name: "one", storage: "disk", dir: dir}
	ctx, cancel := context.WithCancel(t.Context())
	working, stop := context.WithCancel(t.Context())
	defer stop()
	err = w.exclusively(ctx, func(ctx context.Context) error {
		return w.withRoot(ctx, at, func(root *scrub.Root) error {
			startSlowly(working, root)
			cancel()
			return context.Cause(ctx)
		})
	})
	require.ErrorIs(t, err, context.Canceled)
	_, ok := l.names.TryLock("one")
	require.False(t, ok)
	_, ok = l.storage.TryLock("disk")
	require.False(t, ok)
	stop()
	require.NoError(t, (&work{Local: &l, name: "one", storage: "disk"}).exclusively(t.Context(), func(context.Context) error {
		require.NoError(t, unix.Unmount(at, 0), "nothing is open any more")
		return nil
	}))
}

// startSlowly returns once a worker runs, which does not end before ctx.
func startSlowly(ctx context.Context, root *scrub.Root) {
	begun := make(chan struct{})
	var once sync.Once
	ctx = progress.With(ctx, func(progress.Report) { once.Do(func() { close(begun) }) })
	go func() { _, _ = root.Empty(ctx, scrub.Options{PerSecond: 1}) }()
	<-begun
}

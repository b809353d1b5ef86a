package mount_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestWatch: each change is told, on the kernel and on the fake, and the end of the
// context ends it.
func TestWatch(t *testing.T) {
	t.Run("fake", func(t *testing.T) { testWatch(t, mounttest.NewFake(mount.Config{})) })
	t.Run("real", func(t *testing.T) {
		if mounttest.Namespace(t) {
			testWatch(t, mount.New(mount.Config{}))
		}
	})
}

func testWatch(t *testing.T, m interface {
	mount.Interface
	mount.Watcher
}) {
	check := mounttest.NoLeaks(t)
	defer check()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	require.NoError(t, os.Mkdir(source, 0o755))
	require.NoError(t, os.Mkdir(target, 0o755))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	told, ended := make(chan struct{}, 100), make(chan error)
	go func() { ended <- m.Watch(ctx, func() { told <- struct{}{} }) }()
	requireTold := func(what string) {
		t.Helper()
		select {
		case <-told:
		case <-time.After(time.Minute):
			require.FailNow(t, "not told", what)
		}
	}
	requireTold("the beginning")
	for range 3 {
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: source, Target: target}))
		requireTold("mount")
		require.NoError(t, m.Mount(t.Context(), mount.Request{Target: target, Options: []string{"ro"}, Remount: true}))
		requireTold("remount")
		for len(told) > 0 {
			<-told
		}
		require.NoError(t, m.Unmount(t.Context(), target))
		requireTold("unmount")
	}
	cancel(cause)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, cause)
	case <-time.After(time.Minute):
		require.FailNow(t, "it goes on")
	}
	require.ErrorIs(t, m.Watch(ctx, func() {}), cause)
}

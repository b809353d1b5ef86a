package mount_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestWatch: each change is told, on the kernel and on the fake, and the end of the
// context ends it.
func TestWatch(t *testing.T) {
	onBoth(t, testWatch)
}

func testWatch(t *testing.T, m knowing, source, target string) {
	check := mounttest.NoLeaks(t)
	defer check()
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

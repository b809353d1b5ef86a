package mount_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestWatch: a watch reports each change, on the kernel and on the Fake, and ends with its
// context.
func TestWatch(t *testing.T) {
	onKernelAndFake(t, testWatch)
}

func testWatch(t *testing.T, m commonMounter, source, target string) {
	check := mounttest.NoLeaks(t)
	defer check()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	reports, ended := make(chan struct{}, 100), make(chan error)
	go func() { ended <- m.Watch(ctx, func() { reports <- struct{}{} }) }()
	requireReport := func(what string) {
		t.Helper()
		select {
		case <-reports:
		case <-time.After(time.Minute):
			require.FailNow(t, "no report", what)
		}
	}
	requireReport("the first call")
	for range 3 {
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: source, Target: target}))
		requireReport("mount")
		require.NoError(t, m.Mount(t.Context(), mount.Request{Target: target, Options: []string{"ro"}, Remount: true}))
		requireReport("remount")
		for len(reports) > 0 {
			<-reports
		}
		require.NoError(t, m.Unmount(t.Context(), target))
		requireReport("unmount")
	}
	cancel(cause)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, cause)
	case <-time.After(time.Minute):
		require.FailNow(t, "the watch does not end with its context")
	}
	require.ErrorIs(t, m.Watch(ctx, func() {}), cause)
}

// TestWatchMounts: WatchMounts reports attached and detached mounts with their mount points, on
// the kernel and on the Fake, and ends with its context.
func TestWatchMounts(t *testing.T) {
	onKernelAndFake(t, testWatchMounts)
}

func testWatchMounts(t *testing.T, m commonMounter, source, target string) {
	check := mounttest.NoLeaks(t)
	defer check()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	reports, ended := make(chan mount.TableChange, 100), make(chan error, 1)
	go func() { ended <- m.WatchMounts(ctx, func(c mount.TableChange) { reports <- c }) }()
	requireReport := func(what string, want mount.MountChange) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case change := <-reports:
				require.False(t, change.Everything)
				if slices.Contains(change.Mounts, want) {
					return
				}
			case err := <-ended:
				require.NoError(t, err, what)
			case <-deadline:
				require.FailNow(t, "no report", "%s: %v", what, want)
			}
		}
	}
	select {
	case first := <-reports:
		require.True(t, first.Everything, "any mount may have changed before")
	case err := <-ended:
		if errors.Is(err, errors.ErrUnsupported) {
			mounttest.SkipWithout(t, "mountevents", err)
		}
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.FailNow(t, "no first report")
	}
	var before uint64
	for range 3 {
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: source, Target: target}))
		id, err := m.MountID(t.Context(), target)
		require.NoError(t, err)
		require.NotEqual(t, before, id)
		table, err := m.List(t.Context())
		require.NoError(t, err)
		requireReport("mount", mount.MountChange{ID: id, Parent: parentID(t, m, table, target), Target: target})
		require.NoError(t, m.Unmount(t.Context(), target))
		requireReport("unmount", mount.MountChange{ID: id})
		before = id
	}
	cancel(cause)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, cause)
	case <-time.After(time.Minute):
		require.FailNow(t, "the watch does not end with its context")
	}
	require.ErrorIs(t, m.WatchMounts(ctx, func(mount.TableChange) {}), cause)
}

// parentID returns the unique ID of the parent of the mount at target.
func parentID(t *testing.T, m commonMounter, table []mount.Info, target string) (id uint64) {
	t.Helper()
	i := slices.IndexFunc(table, func(info mount.Info) bool { return info.Mountpoint == target })
	require.GreaterOrEqual(t, i, 0)
	for _, info := range table {
		if info.ID == table[i].Parent {
			var err error
			id, err = m.MountID(t.Context(), info.Mountpoint)
			require.NoError(t, err)
		}
	}
	return id
}

// TestWatchMovedMounts: WatchMounts reports Everything after the move of a mount with mounts
// inside: the kernel names only the moved mount, and the paths of the others change as well.
func TestWatchMovedMounts(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := testbed.Dir(t)
	testbed.Fill(t, dir, "from/", "to/")
	require.NoError(t, unix.Mount("x", dir+"/from", "tmpfs", 0, ""))
	require.NoError(t, os.Mkdir(dir+"/from/inner", 0o755))
	require.NoError(t, unix.Mount("x", dir+"/from/inner", "tmpfs", 0, ""))
	t.Cleanup(func() { // after a failed or skipped test
		_ = unix.Unmount(dir+"/from", unix.MNT_DETACH)
		_ = unix.Unmount(dir+"/to", unix.MNT_DETACH)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	calls, moved := 0, false
	err := mount.New(mount.Config{}).WatchMounts(ctx, func(c mount.TableChange) {
		if calls++; calls == 1 {
			require.NoError(t, unix.Mount(dir+"/from", dir+"/to", "", unix.MS_MOVE, ""))
			return
		}
		moved = moved || c.Everything
		cancel()
	})
	if errors.Is(err, errors.ErrUnsupported) {
		mounttest.SkipWithout(t, "mountevents", err)
	}
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, moved)
	require.NoError(t, unix.Unmount(dir+"/to/inner", 0))
	require.NoError(t, unix.Unmount(dir+"/to", 0))
}

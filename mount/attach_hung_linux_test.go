package mount_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestMountOnHungDirectory: the kernel does not attach a mount during a lookup in the directory
// of the target. Mount returns with its context and an error that wraps ErrUncertain, and other
// calls for the target wait until the kernel is done.
func TestMountOnHungDirectory(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	m := mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	dir := mkdirs(t, "fs", "bound", "source")
	mountOnHungDirectory(t, m, mount.Request{Source: "x", FSType: "tmpfs", Target: dir + "/fs", Stack: true})
	mountOnHungDirectory(t, m, mount.Request{Source: dir + "/source", Target: dir + "/bound", Stack: true})
}

func mountOnHungDirectory(t *testing.T, m *mount.Mounter, req mount.Request) {
	target := req.Target
	hung := mountHungFS(t, target)
	root, err := unix.Open(target, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	lookupDone := make(chan struct{})
	go func() {
		defer close(lookupDone)
		var stat unix.Stat_t
		_ = unix.Fstatat(root, "x", &stat, 0)
		_ = unix.Close(root)
	}()
	attempt := func() error {
		return callBriefly(t, func(ctx context.Context) error { return m.Mount(ctx, req) })
	}
	// Repeats until the lookup has begun, and the second call waits for the first.
	deadline := time.Now().Add(time.Minute)
	for !errors.Is(attempt(), mount.ErrUncertain) || !errors.Is(attempt(), context.DeadlineExceeded) {
		require.True(t, time.Now().Before(deadline), "the lookup does not delay the mount")
		for entryAt(t, m, target).FSType != "fuse.hung" {
			require.NoError(t, unix.Unmount(target, 0))
		}
	}

	hung.release()
	<-lookupDone
	require.NoError(t, m.Mount(t.Context(), req), "the first call has ended")
	require.NoError(t, m.Unmount(t.Context(), target))
}

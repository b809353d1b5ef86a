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

// TestMountOnHungDirectory: the kernel does not attach a mount while the file system
// of the target is looking for a name in that directory. A Mount returns all the
// same, says that the mount may come, and keeps others from overtaking it.
func TestMountOnHungDirectory(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	m := mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	target := mkdirs(t, "fs") + "/fs"
	hung := mountHungFS(t, target)
	root, err := unix.Open(target, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		var stat unix.Stat_t
		_ = unix.Fstatat(root, "x", &stat, 0)
		_ = unix.Close(root)
	}()
	req := mount.Request{Source: "x", FSType: "tmpfs", Target: target, Stack: true}
	try := func() error {
		return soon(t, func(ctx context.Context) error { return m.Mount(ctx, req) })
	}
	// Until the look is under way, and the second waits for the first.
	deadline := time.Now().Add(time.Minute)
	for !errors.Is(try(), mount.ErrUncertain) || !errors.Is(try(), context.DeadlineExceeded) {
		require.True(t, time.Now().Before(deadline), "the look does not hold up the mount")
		for tableAt(t, m, target).FSType == "tmpfs" {
			require.NoError(t, unix.Unmount(target, 0))
		}
	}

	hung.release()
	<-looked
	require.NoError(t, m.Mount(t.Context(), req), "the first has ended")
	require.NoError(t, m.Unmount(t.Context(), target))
}

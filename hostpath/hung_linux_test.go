package hostpath_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// hang mounts a file system that never answers. After release all calls that wait for the
// file system fail.
func hang(t *testing.T, dir string) (release func()) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o755))
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		mounttest.SkipWithout(t, "fuse", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev.Fd())
	require.NoError(t, unix.Mount("dead", dir, "fuse.dead", 0, options))
	release = func() { _ = dev.Close() }
	t.Cleanup(func() {
		release()
		require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	return release
}

// countWaiting counts the goroutines that wait for a path's file system.
func countWaiting() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "created by github.com/volumekit/volumekit/hostpath.await")
}

// TestHungPath checks that a path whose file system does not answer stalls no caller, and
// that one thread waits for it, however many calls there are.
func TestHungPath(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newNode(t, mount.Config{}, func(c *hostpath.Config) { c.RecycleRoots = c.Roots })
	release := hang(t, n.paths+"/dead")
	spec := persistent(n.paths+"/dead/new", v1.HostPathDirectoryOrCreate)
	setUp := func(ctx context.Context) error { return n.mounterOf(t, spec).SetUp(ctx, volume.MounterArgs{}) }
	recycle := func(ctx context.Context) error { return n.plugin.Recycle(ctx, "vol", spec) }
	for countWaiting() == 0 { // the deadline may have been too early for the first
		requireHung(t, setUp)
	}
	for range 4 {
		requireHung(t, setUp)
		requireHung(t, recycle)
	}
	require.Equal(t, 1, countWaiting())
	release()
	require.Eventually(t, func() bool { return countWaiting() == 0 }, time.Minute, 10*time.Millisecond)
	require.ErrorIs(t, setUp(t.Context()), unix.ENOTCONN)
}

func requireHung(t *testing.T, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := do(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, volume.Transient, volume.KindOf(err))
}

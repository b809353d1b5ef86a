package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestBlockMetricsHung checks that one thread waits for the size of a device that does not
// answer, however many calls there are.
func TestBlockMetricsHung(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	dead := t.TempDir()
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		mounttest.SkipWithout(t, "fuse", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev.Fd())
	require.NoError(t, unix.Mount("dead", dead, "fuse.dead", 0, options))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dead, unix.MNT_DETACH)) })
	t.Cleanup(func() { _ = dev.Close() }) // ends the waiting calls with an error
	v := r.unmapper("1")
	require.NoError(t, os.MkdirAll(filepath.Dir(podLink(v)), 0o755))
	require.NoError(t, os.Symlink(dead+"/disk", podLink(v)))
	for waiting() == 0 { // the deadline may have been too early for the first
		requireNoMetrics(t, v)
	}
	for range 4 {
		requireNoMetrics(t, v)
	}
	require.Eventually(t, func() bool { return waiting() == 1 }, time.Minute, 10*time.Millisecond)
}

func requireNoMetrics(t *testing.T, v volume.BlockVolume) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := v.GetMetrics(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// waiting counts the goroutines that query a device.
func waiting() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "created by github.com/volumekit/volumekit/util/fsusage.") +
		strings.Count(string(stacks), "created by github.com/volumekit/volumekit/util/ctxend.Await")
}

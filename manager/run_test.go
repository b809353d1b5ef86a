package manager_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestRunTwiceIsRefused: a manager runs once at a time, and can run again.
func TestRunTwiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		m, stop := n.run()
		synctest.Wait()
		require.ErrorIs(t, m.Run(t.Context()), manager.ErrRunning)
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, m.Run(ctx))
	})
}

// TestRunEndsDuringReconstruction: Run returns at once if it is stopped during the reconstruction.
func TestRunEndsDuringReconstruction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()
		n.plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Delay: time.Hour, Times: 1})
		_, stop = n.run()
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		require.Less(t, time.Since(begin), time.Second)
		require.Equal(t, 1, n.mountCount())
		m, stop := n.run()
		n.up(m, pod)
		stop()
	})
}

// TestStartFailsAtTheEnd: an end of the context does not hide the failure of a start.
func TestStartFailsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		m, stop := n.run()
		stop()
		require.NoError(t, os.RemoveAll(filepath.Join(n.host.Root(), "pods")))
		require.NoError(t, os.WriteFile(filepath.Join(n.host.Root(), "pods"), nil, 0o600))
		require.ErrorContains(t, m.Run(endedContext(t)), "find the volumes of an earlier run: not a directory")
	})
}

// TestIdleManagerMakesNoCalls: without changes the manager makes no call of the kernel.
func TestIdleManagerMakesNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.config.Resync, n.config.Refresh = -1, -1
		n.claim("a")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		time.Sleep(time.Second)
		n.kernel.ResetLog()
		time.Sleep(24 * time.Hour)
		require.Empty(t, n.kernel.Log())
		stop()
	})
}

// TestWaitsWhileNotRunning: before Run and after it no wait reports a volume as up, or as gone: its
// state may have changed since.
func TestWaitsWhileNotRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		up, gone := podWith("1", "a"), podWith("2", "a")
		stopped, err := manager.New(n.config)
		require.NoError(t, err)
		m, stop := n.runUp(up)
		n.down(m, gone)
		stop()
		for _, m := range []*manager.Manager{stopped, m} {
			require.ErrorIs(t, m.WaitForAttachAndMount(endedContext(t), up), manager.ErrNotRunning)
			require.ErrorIs(t, m.WaitForUnmount(endedContext(t), gone), manager.ErrNotRunning)
			require.ErrorIs(t, m.WaitForAllPodsUnmount(endedContext(t)), manager.ErrNotRunning)
		}
		require.Len(t, m.GetMountedVolumesForPod("1"), 1, "the last known state")
		again := make(chan error)
		go func() { again <- m.WaitForAttachAndMount(t.Context(), up) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		run := make(chan error)
		go func() { run <- m.Run(ctx) }()
		require.NoError(t, <-again, "the next run reports it")
		cancel()
		require.NoError(t, <-run)
	})
}

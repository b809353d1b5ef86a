package mount_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// requireReturns fails with the stacks of all goroutines if call does not return within a
// minute.
func requireReturns(t *testing.T, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); call() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		stacks := make([]byte, 1<<20)
		t.Fatalf("the call does not return\n%s", stacks[:runtime.Stack(stacks, true)])
	}
}

// unmountEventually unmounts a path. It retries while a late lookup keeps the mount busy.
func unmountEventually(t *testing.T, m *mount.Mounter, path string) {
	t.Helper()
	requireReturns(t, func() {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NoError(c, m.Unmount(t.Context(), path))
		}, 30*time.Second, 10*time.Millisecond)
	})
}

// TestCallsOnHungMount: no query about a file system that does not answer, and no call with a
// context, waits for the file system. The calls that waited in the kernel have no effect
// when the answer comes.
func TestCallsOnHungMount(t *testing.T) {
	t.Parallel()
	onEachTier(t, mounttest.RootNamespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "hung", "bound", "source", "target")
		hung := mountHungFS(t, dir+"/hung")
		requireReturns(t, func() {
			is, err := m.IsMountPoint(t.Context(), dir+"/hung")
			require.NoError(t, err)
			require.True(t, is)
			refs, err := m.MountRefs(t.Context(), dir+"/hung")
			require.NoError(t, err)
			require.Empty(t, refs)
			_, err = m.List(t.Context())
			require.NoError(t, err)
		})
		// A bind mount of its root sends no request to the server, nor does a repeated one.
		for range 3 {
			requireReturns(t, func() {
				require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/hung", Target: dir + "/bound", Options: []string{"ro"}}))
			})
		}
		requireReturns(t, func() { require.NoError(t, m.Unmount(t.Context(), dir+"/bound")) })

		before := runtime.NumGoroutine()
		for _, req := range []mount.Request{
			{Source: dir + "/hung/inside", Target: dir + "/target"},
			{Source: dir + "/source", Target: dir + "/hung/inside"},
		} {
			for range 8 {
				requireReturns(t, func() {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					defer cancel()
					err := m.Mount(ctx, req)
					require.ErrorIs(t, err, context.DeadlineExceeded, "%+v", req)
					require.NotErrorIs(t, err, mount.ErrUncertain)
				})
			}
		}
		// For each target one call, and one request that the file system keeps.
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+8 }, time.Minute, time.Millisecond, "repeated calls accumulate goroutines")
		requireReturns(t, func() {
			require.NoError(t, m.Unmount(t.Context(), dir+"/target"), "a hung source does not lock the target")
		})
		hung.release()
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, time.Minute, time.Millisecond)
		require.False(t, isMountPoint(t, dir+"/target"), "an abandoned call has mounted")

		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/source", Target: dir + "/target"}))
		require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
		unmountEventually(t, m, dir+"/hung")
	})
}

// TestUnmountHungMount: an idle mount of a hung server is unmounted like any other mount.
func TestUnmountHungMount(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := mkdirs(t, "hung")
	mountHungFS(t, dir+"/hung")
	m := mount.New(mount.Config{})
	requireReturns(t, func() { require.NoError(t, m.Unmount(t.Context(), dir+"/hung")) })
	require.False(t, isMountPoint(t, dir+"/hung"))
	require.NoError(t, os.Remove(dir+"/hung"))
}

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

// within makes sure that a call returns, and soon. The bound is far above what
// any machine needs, and far below for ever.
func within(t *testing.T, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); call() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		stacks := make([]byte, 1<<20)
		t.Fatalf("it hangs\n%s", stacks[:runtime.Stack(stacks, true)])
	}
}

// unmountSoon unmounts what somebody may still have a look at.
func unmountSoon(t *testing.T, m *mount.Mounter, path string) {
	t.Helper()
	within(t, func() {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NoError(c, m.Unmount(t.Context(), path))
		}, 30*time.Second, 10*time.Millisecond)
	})
}

// TestHungMount: no question about a file system that does not answer, and no
// call with a context, waits for it; and what waited in the kernel does nothing
// when the answer comes.
func TestHungMount(t *testing.T) {
	onEachTier(t, mounttest.RootNamespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "hung", "bound", "source", "target")
		hung := mountHungFS(t, dir+"/hung")
		within(t, func() {
			is, err := m.IsMountPoint(t.Context(), dir+"/hung")
			require.NoError(t, err)
			require.True(t, is)
			refs, err := m.MountRefs(t.Context(), dir+"/hung")
			require.NoError(t, err)
			require.Empty(t, refs)
			_, err = m.List(t.Context())
			require.NoError(t, err)
		})
		// Binding the root of it asks the server nothing, nor does doing so again.
		for range 3 {
			within(t, func() {
				require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/hung", Target: dir + "/bound", Options: []string{"ro"}}))
			})
		}
		within(t, func() { require.NoError(t, m.Unmount(t.Context(), dir+"/bound")) })

		before := runtime.NumGoroutine()
		for _, req := range []mount.Request{
			{Source: dir + "/hung/inside", Target: dir + "/target"},
			{Source: dir + "/source", Target: dir + "/hung/inside"},
		} {
			for range 8 {
				within(t, func() {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					defer cancel()
					err := m.Mount(ctx, req)
					require.ErrorIs(t, err, context.DeadlineExceeded, "%+v", req)
					require.NotErrorIs(t, err, mount.ErrUncertain)
				})
			}
		}
		// For each target one call, and one request that the file system keeps.
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+8 }, time.Minute, time.Millisecond, "not one for each try")
		within(t, func() { require.NoError(t, m.Unmount(t.Context(), dir+"/target"), "what is stuck is in nobody's way") })
		hung.release()
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, time.Minute, time.Millisecond)
		require.False(t, isMountPoint(t, dir+"/target"), "an abandoned mount came late")

		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/source", Target: dir + "/target"}))
		require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
		unmountSoon(t, m, dir+"/hung")
	})
}

// TestUnmountHung: an idle mount whose server is gone is unmounted like any other.
func TestUnmountHung(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := mkdirs(t, "hung")
	mountHungFS(t, dir+"/hung")
	m := mount.New(mount.Config{})
	within(t, func() { require.NoError(t, m.Unmount(t.Context(), dir+"/hung")) })
	require.False(t, isMountPoint(t, dir+"/hung"))
	require.NoError(t, os.Remove(dir+"/hung"))
}

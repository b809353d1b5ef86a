package child_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/internal/child"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { mounttest.Main(m, nil) }

// TestGuardKeepsOneMount: a waiting guard keeps no other mount busy, though the process
// had a descriptor in that mount when the guard started.
func TestGuardKeepsOneMount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := resolvedTempDir(t)
	held, other := tmpfsAt(t, dir+"/held"), tmpfsAt(t, dir+"/other")
	hold, err := child.HoldSuperblock(held)
	require.NoError(t, err)
	kernel.Close(held)
	release, err := child.StartGuard(hold)
	require.NoError(t, err)
	kernel.Close(other, hold)
	require.Eventually(t, func() bool { return unix.Unmount(dir+"/other", 0) == nil },
		30*time.Second, time.Millisecond, "the guard has a copy of the descriptor")
	require.NoError(t, unix.Unmount(dir+"/held", 0))
	require.NoError(t, release())
}

// TestReleaseSuperblock: a hold does not keep its mount busy, and its release ends.
func TestReleaseSuperblock(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := resolvedTempDir(t)
	held := tmpfsAt(t, dir+"/held")
	hold, err := child.HoldSuperblock(held)
	require.NoError(t, err)
	kernel.Close(held)
	require.NoError(t, unix.Unmount(dir+"/held", 0))
	select {
	case <-child.ReleaseSuperblock(hold):
	case <-time.After(30 * time.Second):
		t.Fatal("the release does not end")
	}
}

func TestResponds(t *testing.T) {
	var probes child.Probes
	responds, err := probes.Responds(t.Context(), kernel.MountID{Number: 1}, testbed.OpenPath(t, "/"), time.Minute)
	require.NoError(t, err)
	require.True(t, responds)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = probes.Responds(ended, kernel.MountID{Number: 1}, testbed.OpenPath(t, "/"), time.Minute)
	if err != nil { // or the child was faster
		require.ErrorIs(t, err, context.Canceled)
	}
}

func resolvedTempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

// tmpfsAt mounts a tmpfs and returns a descriptor of its root.
func tmpfsAt(t *testing.T, dir string) int {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	return fd
}

package staging_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/staging"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { mounttest.Main(m, nil) }

// TestSweepRemovesLeftArea: an area that could not be unmounted is removed by the next sweep.
func TestSweepRemovesLeftArea(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	parent := filepath.Join(t.TempDir(), "staging")
	area, err := staging.Open(parent)
	require.NoError(t, err)
	place, err := area.CreatePlace(true)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { // on a thread that may not unmount, and ends
		defer close(done)
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			t.Error(err)
		}
		area.Release()
	}()
	<-done
	require.True(t, isMountPoint(t, filepath.Dir(place)))
	staging.RemoveStale(parent)
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestParentWithoutMount: where nothing can be mounted, as in a user namespace without a mount namespace of its own, the
// parent that the call has created is removed.
func TestParentWithoutMount(t *testing.T) {
	const inside = "VOLUMEKIT_STAGING"
	if dir := os.Getenv(inside); dir != "" {
		for name, stays := range map[string]bool{"new": false, "old": true} {
			_, err := staging.Open(filepath.Join(dir, name))
			require.ErrorIs(t, err, unix.EPERM)
			_, err = os.Lstat(filepath.Join(dir, name))
			require.Equal(t, stays, err == nil, name)
		}
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "old"), 0o700))
	run := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestParentWithoutMount$", "-test.v")
	run.Env = append(os.Environ(), inside+"="+dir)
	run.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
	}
	out, err := run.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		mounttest.SkipWithout(t, "userns", err)
	}
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestParentWithoutMount")
}

// TestSweepKeepsAreaInUse: a sweep leaves the areas of processes that run.
func TestSweepKeepsAreaInUse(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	parent := filepath.Join(t.TempDir(), "staging")
	area, err := staging.Open(parent)
	require.NoError(t, err)
	place, err := area.CreatePlace(false)
	require.NoError(t, err)
	staging.RemoveStale(parent)
	require.FileExists(t, place)
	area.Release()
	require.NoFileExists(t, place)
}

func isMountPoint(t *testing.T, dir string) bool {
	t.Helper()
	differs, err := kernel.DiffersFromParent(testbed.OpenPath(t, filepath.Dir(dir)), filepath.Base(dir))
	require.NoError(t, err)
	return differs
}

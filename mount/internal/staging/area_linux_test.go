package staging_test

import (
	"os"
	"path/filepath"
	"runtime"
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

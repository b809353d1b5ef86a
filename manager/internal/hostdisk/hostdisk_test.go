package hostdisk

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
)

// TestDeviceUseOfName: the name of an attached volume that is not the path of a device is not looked up in the
// working directory.
func TestDeviceUseOfName(t *testing.T) {
	const name = "csi-0123"
	unlock, err := devicesBeingOpened.Lock(t.Context(), name)
	require.NoError(t, err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	use, err := Disk{}.DeviceUse(ctx, name)
	require.NoError(t, err, "nothing is opened")
	require.Equal(t, DeviceUseUnknown, use)
}

// TestTidyKeepsTheDirectoryOfAllPods: a plugin that creates the directories of another pod at that
// moment would fail with ENOENT.
func TestTidyKeepsTheDirectoryOfAllPods(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	dir, err := host.PodVolumeDir("uid", "example.com/plugin", "vol")
	require.NoError(t, err)
	pods := filepath.Join(host.Root(), "pods")
	for range 2 {
		require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
		require.NoError(t, Disk{host: host}.RemoveEmptyParents(t.Context(), dir))
		require.NoDirExists(t, filepath.Join(pods, "uid"))
		require.DirExists(t, pods)
	}
}

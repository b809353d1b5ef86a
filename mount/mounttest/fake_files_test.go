package mounttest_test

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestFakeOnFiles: a Fake finds sources, targets and links in files in memory.
func TestFakeOnFiles(t *testing.T) {
	files := &mounttest.MemoryFiles{}
	for _, dir := range []string{"/data/sub", "/target", "/device"} {
		require.NoError(t, files.MkdirAll(dir, 0o755))
	}
	require.NoError(t, files.Symlink("data", "/link"))
	kernel := mounttest.NewFakeOn(mount.Config{}, files)
	bind := mount.Request{Source: "/data", Target: "/target", Options: []string{"ro"}}
	require.NoError(t, kernel.Mount(t.Context(), bind))
	require.NoError(t, kernel.Mount(t.Context(), bind))
	require.NoError(t, kernel.Mount(t.Context(), mount.Request{Source: "/dev/sda", Target: "/device", FSType: "ext4"}))

	real, readOnly, err := kernel.RealPath("/target/sub")
	require.NoError(t, err)
	require.Equal(t, "/data/sub", real)
	require.True(t, readOnly)
	real, _, err = kernel.RealPath("/link/sub")
	require.NoError(t, err)
	require.Equal(t, "/data/sub", real)
	_, err = kernel.IsMountPoint(t.Context(), "/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	refs, err := kernel.MountRefs(t.Context(), "/target")
	require.NoError(t, err)
	require.Empty(t, refs)

	require.NoError(t, files.Remove("/data/sub"))
	require.NoError(t, files.Remove("/data"))
	require.NoError(t, files.Mkdir("/data", 0o755)) // another one of its name
	place, err := kernel.Resolve(t.Context(), "/target")
	require.NoError(t, err)
	require.True(t, place.Mount.Deleted)
	require.ErrorIs(t, kernel.Mount(t.Context(), bind), mount.ErrMounted)
	require.NoError(t, kernel.Unmount(t.Context(), "/target"))
	require.NoError(t, files.Remove("/target"))
	require.ErrorIs(t, kernel.Mount(t.Context(), bind), fs.ErrNotExist)
}

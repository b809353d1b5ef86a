package beneath

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMountWithoutStatx: before Linux 5.8 the mount's ID is read from fdinfo.
func TestMountWithoutStatx(t *testing.T) {
	fd, err := unix.Open(t.TempDir(), ToList, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	at, err := Identify(fd)
	require.NoError(t, err)
	require.NotZero(t, at.Mount)
	mount, err := MountIn(fd, &unix.Statx_t{})
	require.NoError(t, err)
	require.Equal(t, at.Mount, mount)
	_, err = MountIn(-1, &unix.Statx_t{})
	require.Error(t, err)
}

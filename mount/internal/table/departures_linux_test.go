package table

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// TestDepartures: a departing mount does not count as another mount of its file system, and
// the index forgets a detached mount at the next question.
func TestDepartures(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	c := newCachedDir(t, &Cache{})
	c.requireFeed("mountevents")
	c.bind("", "/target")
	var mounts []kernel.Location
	for _, at := range []string{c.dir, c.dir + "/target"} {
		fd, err := unix.Open(at, unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		l, err := kernel.LocationOf(fd)
		kernel.Close(fd)
		require.NoError(t, err)
		mounts = append(mounts, l)
	}
	end, outlived, err := c.BeginDeparture(t.Context(), mounts[0])
	require.NoError(t, err)
	require.True(t, outlived, "the bind mount stays")
	endOther, outlived, err := c.BeginDeparture(t.Context(), mounts[1])
	require.NoError(t, err)
	require.False(t, outlived, "the bind mount departs, too")
	end()
	endOther()
	c.unmount("/target")
	_, err = c.hasStaying(t.Context(), kernel.Device{}, mounts[0].ID.Number)
	require.NoError(t, err)
	require.NotContains(t, c.index.mounts, mounts[1].ID.Number)
	require.Contains(t, c.index.mounts, mounts[0].ID.Number)
}

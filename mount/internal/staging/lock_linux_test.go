package staging

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"golang.org/x/sys/unix"
)

// TestLock: a lock without a name does not count, and a sweep leaves areas whose process runs.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	lock, err := createLock(dir)
	require.NoError(t, err)
	require.True(t, isLinked(lock))
	sweepParent(dir)
	require.FileExists(t, lock.Name(), "its process runs")
	require.NoError(t, os.Remove(lock.Name()))
	require.False(t, isLinked(lock))
	require.NoError(t, lock.Close())

	require.NoError(t, os.WriteFile(dir+"/left"+lockSuffix, nil, 0o600))
	require.NoError(t, os.Mkdir(dir+"/left", 0o700))
	sweepParent(dir)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestParentOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can give a directory away
	}
	dir := t.TempDir() + "/staging"
	for _, isNew := range []bool{true, false} {
		created, err := createParent(dir)
		require.NoError(t, err)
		require.Equal(t, isNew, created)
	}
	require.NoError(t, os.Chown(dir, 65534, -1))
	_, err := createParent(dir)
	require.ErrorIs(t, err, unix.EPERM)
	var input *failure.InputError
	_, err = createParent("relative")
	require.ErrorAs(t, err, &input)
}

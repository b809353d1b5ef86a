package volumekit_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestTempDirIsInMemory: tests in CI do not wait for a disk.
func TestTempDirIsInMemory(t *testing.T) {
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(t.TempDir(), &fs))
	if fs.Type != unix.TMPFS_MAGIC {
		mounttest.SkipWithout(t, "memory", "t.TempDir is on a disk")
	}
}

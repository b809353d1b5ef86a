package mounttest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// A limited test has some time left, and records its failure.
type limited struct {
	*testing.T
	left    time.Duration
	failure string
}

func (l *limited) Deadline() (end time.Time, ok bool) { return time.Now().Add(l.left), true }

func (l *limited) Fatalf(format string, args ...any) { l.failure = fmt.Sprintf(format, args...) }

// TestHangingCopyReports: a copy that hangs prints its stacks before go test ends its parent.
func TestHangingCopyReports(t *testing.T) {
	l := &limited{T: t, left: 11 * time.Second}
	if mounttest.Namespace(l) {
		time.Sleep(time.Hour)
	}
	require.Contains(t, l.failure, "panic: test timed out after ")
	require.Contains(t, l.failure, "mounttest_test.TestHangingCopyReports")
}

// TestNoTimeForCopy: a test that begins when the time of go test is up fails in one line.
func TestNoTimeForCopy(t *testing.T) {
	l := &limited{T: t, left: 9 * time.Second}
	require.False(t, mounttest.Namespace(l))
	require.Equal(t, "the time of go test is up (-timeout)", l.failure)
}

// TestFilesInMemory: with -short the temporary files of a copy are in a file system of its own, in memory, which leaves no
// directory.
func TestFilesInMemory(t *testing.T) {
	if os.Getenv("VOLUMEKIT_IN_NAMESPACE") == "" {
		t.Setenv("TMPDIR", t.TempDir())
		t.Setenv("GOTMPDIR", os.TempDir())
	}
	outside := os.TempDir()
	if mounttest.Namespace(t) {
		require.Equal(t, testing.Short(), isOwnTmpfs(t, os.TempDir()))
		require.Equal(t, testing.Short(), isOwnTmpfs(t, filepath.Dir(filepath.Dir(t.TempDir()))))
		return
	}
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}

// isOwnTmpfs reports whether a directory is the root of a tmpfs.
func isOwnTmpfs(t *testing.T, dir string) bool {
	t.Helper()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	var at, above unix.Stat_t
	require.NoError(t, unix.Stat(dir, &at))
	require.NoError(t, unix.Stat(dir+"/..", &above))
	return fs.Type == unix.TMPFS_MAGIC && at.Dev != above.Dev
}

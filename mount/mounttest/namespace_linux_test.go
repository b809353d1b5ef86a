package mounttest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

package mounttest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// A limited test ends in eleven seconds, and records its failure.
type limited struct {
	*testing.T
	failure string
}

func (l *limited) Deadline() (end time.Time, ok bool) { return time.Now().Add(11 * time.Second), true }

func (l *limited) Fatalf(format string, args ...any) { l.failure = fmt.Sprintf(format, args...) }

// TestHangingCopyReports: a copy that hangs prints its stacks before go test ends its parent.
func TestHangingCopyReports(t *testing.T) {
	l := &limited{T: t}
	if mounttest.Namespace(l) {
		time.Sleep(time.Hour)
	}
	require.Contains(t, l.failure, "panic: test timed out after 1s")
	require.Contains(t, l.failure, "mounttest_test.TestHangingCopyReports")
}

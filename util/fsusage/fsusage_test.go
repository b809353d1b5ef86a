package fsusage

import (
	"context"
	"io/fs"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStat(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("statfs is for Linux")
	}
	usage, err := Stat(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.Positive(t, usage.Capacity)
	require.LessOrEqual(t, usage.Used+usage.Available, usage.Capacity)
	require.LessOrEqual(t, usage.InodesUsed, usage.Inodes)

	_, err = Stat(t.Context(), t.TempDir()+"/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestHung: a file system that does not answer costs its callers their deadline
// and the process one goroutine, however often it is asked.
func TestHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		real := statfs
		defer func() { statfs = real }()
		var calls atomic.Int32
		answer := make(chan struct{})
		statfs = func(string) (Usage, error) {
			calls.Add(1)
			<-answer
			return Usage{Capacity: 1}, nil
		}
		for range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := Stat(ctx, "/hung")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "/hung")
		}
		require.EqualValues(t, 1, calls.Load())
		close(answer)
		synctest.Wait()
		usage, err := Stat(t.Context(), "/hung")
		require.NoError(t, err)
		require.EqualValues(t, 1, usage.Capacity)
		require.EqualValues(t, 2, calls.Load(), "an answer is not kept")
	})
}

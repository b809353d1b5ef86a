package fsusage

import (
	"context"
	"io/fs"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStat(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("Stat is for Linux and Windows")
	}
	dir := t.TempDir()
	usage, err := Stat(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	ofFile, err := Stat(t.Context(), dir+"/file")
	require.NoError(t, err)
	require.Equal(t, usage.Capacity, ofFile.Capacity)
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

// TestHungDevice checks that a device which does not answer costs one stuck query, and that
// another device node at the same path gets a query of its own.
func TestHungDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		realSize, realNodeAt := blockSize, nodeAt
		defer func() { blockSize, nodeAt = realSize, realNodeAt }()
		var calls atomic.Int32
		answer := make(chan struct{})
		blockSize = func(string) (int64, error) {
			if calls.Add(1) == 1 {
				<-answer
			}
			return 512, nil
		}
		nodeAt = func(string) uint64 { return 1 }
		for range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := BlockSize(ctx, "/dev/hung")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "/dev/hung")
		}
		require.EqualValues(t, 1, calls.Load())
		nodeAt = func(string) uint64 { return 2 }
		size, err := BlockSize(t.Context(), "/dev/hung")
		require.NoError(t, err)
		require.EqualValues(t, 512, size)
		close(answer)
	})
}

// TestHungBefore checks that a query of the current mount does not wait for the query of an
// earlier mount at the same path.
func TestHungBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		realStatfs, realMountAt := statfs, mountAt
		defer func() { statfs, mountAt = realStatfs, realMountAt }()
		var calls atomic.Int32
		answer := make(chan struct{})
		statfs = func(string) (Usage, error) {
			if calls.Add(1) == 1 {
				<-answer
			}
			return Usage{}, nil
		}
		mountAt = func(string) uint64 { return 1 }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Stat(ctx, "/dead")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		mountAt = func(string) uint64 { return 2 }
		_, err = Stat(t.Context(), "/dead")
		require.NoError(t, err)
		close(answer)
	})
}

// TestMountAt checks that paths in one mount have the same number. It is not 0 if the kernel
// reports it.
func TestMountAt(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/a", 0o700))
	require.Equal(t, mountAt(dir), mountAt(dir+"/a"))
	if runtime.GOOS == "linux" {
		require.Eventually(t, func() bool { return nodeAt(dir) != nodeAt(dir+"/a") }, time.Minute, time.Millisecond)
	}
	require.Zero(t, mountAt(dir+"/none"))
	require.Zero(t, nodeAt(dir+"/none"))
}

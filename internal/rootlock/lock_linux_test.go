package rootlock_test

import (
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/rootlock"
)

// TestLock: one lock at a time, whose holder is readable, until it ends.
func TestLock(t *testing.T) {
	root := t.TempDir()
	_, err := rootlock.Holder(root)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for again := range 2 {
		lock, err := rootlock.New(root)
		require.NoError(t, err)
		pid, err := rootlock.Holder(root)
		require.NoError(t, err)
		require.Equal(t, os.Getpid(), pid)
		if again == 0 { // New waits for a holder
			_, err = rootlock.New(root)
			require.ErrorIs(t, err, rootlock.ErrLocked)
			require.ErrorContains(t, err, fmt.Sprint("process ", os.Getpid()))
		}
		require.NoError(t, lock.Close())
		pid, err = rootlock.Holder(root)
		require.NoError(t, err)
		require.Zero(t, pid)
	}
}

package unmounting_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/inflight"
)

// TestUnmountAwaitsEnd: Unmount and UnmountTree wait for the superblocks that were at the path
// and, of a tree, below it. They wait for no superblock beside it.
func TestUnmountAwaitsEnd(t *testing.T) {
	dir := newDir(t, "tree", "tree/in", "tree-2")
	synctest.Test(t, func(t *testing.T) {
		u := newUnmounter()
		in, beside := make(chan struct{}), make(chan struct{})
		u.AddEnd(dir+"/tree/in", in)
		u.AddEnd(dir+"/tree-2", beside)
		begin := time.Now()
		for prefix, unmount := range map[string]func(context.Context) error{
			"unmount /": func(ctx context.Context) error { return u.UnmountTree(ctx, dir+"/tree") },
			"unmounted": func(ctx context.Context) error { return u.Unmount(ctx, dir+"/tree/in") },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := unmount(ctx)
			cancel()
			require.ErrorIs(t, err, failure.ErrNotEnded)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, prefix, err.Error()[:len(prefix)])
		}
		require.Equal(t, 2*(time.Second+inflight.Grace), time.Since(begin))
		time.AfterFunc(time.Minute, func() { close(in) })
		require.NoError(t, u.UnmountTree(t.Context(), dir+"/tree"))
		require.NoError(t, u.Unmount(t.Context(), dir+"/tree/in"))
		synctest.Wait()
		require.Equal(t, 1, u.PendingEnds())
		close(beside)
		synctest.Wait()
		require.Zero(t, u.PendingEnds(), "ended superblocks are removed")
		require.ErrorIs(t, u.Unmount(t.Context(), dir+"/missing"), os.ErrNotExist)
	})
}

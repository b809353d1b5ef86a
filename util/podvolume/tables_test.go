package podvolume

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

// A slowMounter takes a second to read, and then shows when its reading began.
type slowMounter struct {
	mount.Interface
	reads atomic.Int32
	fails atomic.Bool
}

func (s *slowMounter) List(ctx context.Context) ([]mount.Info, error) {
	s.reads.Add(1)
	began := time.Now()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.fails.Load() {
		return nil, errors.New("no table")
	}
	return []mount.Info{{ID: int(began.UnixNano())}}, nil
}

// TestTablesAreShared checks that callers which arrive while a table is being read share the
// next one, whose reading began after their calls.
func TestTablesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowMounter{}
		tables := &tables{mounter: slow}
		var all sync.WaitGroup
		var views sync.Map
		for i := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				asked := time.Now()
				view, err := tables.view(t.Context())
				require.NoError(t, err)
				require.GreaterOrEqual(t, view.Table()[0].ID, int(asked.UnixNano()), "a table from before the question")
				views.Store(view, true)
			})
		}
		all.Wait()
		require.EqualValues(t, 2, slow.reads.Load())
		derived := 0
		views.Range(func(any, any) bool { derived++; return true })
		require.Equal(t, 2, derived, "one view of each reading")
	})
}

func TestTablesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowMounter{}
		slow.fails.Store(true)
		tables := &tables{mounter: slow}
		_, err := tables.view(t.Context())
		require.ErrorContains(t, err, "no table")

		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		begin := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
		_, err = tables.view(ctx)
		require.ErrorIs(t, err, cause)
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		synctest.Wait()
		require.Equal(t, 100*time.Millisecond, time.Since(begin), "what was read for nobody has ended")

		// The end of a caller that waits for the next read does not end that read for later
		// callers.
		go func() { _, _ = tables.view(t.Context()) }()
		time.Sleep(100 * time.Millisecond)
		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(cause)
		_, err = tables.view(ctx)
		require.ErrorIs(t, err, cause)
		slow.fails.Store(false)
		_, err = tables.view(t.Context())
		require.NoError(t, err, "others are not concerned")
	})
}

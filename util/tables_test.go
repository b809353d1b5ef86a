package util

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

// A slowTable takes a second to read, and then shows when its reading began.
type slowTable struct {
	mount.Interface
	reads atomic.Int32
	fails atomic.Bool
}

func (s *slowTable) List(ctx context.Context) ([]mount.Info, error) {
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

// Those who ask while a table is being read share the next one, which began after they
// asked.
func TestTablesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{}
		tables := &tables{mounter: slow}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				asked := time.Now()
				table, err := tables.list(t.Context())
				require.NoError(t, err)
				require.GreaterOrEqual(t, table[0].ID, int(asked.UnixNano()), "a table from before the question")
			})
		}
		all.Wait()
		require.EqualValues(t, 2, slow.reads.Load())
	})
}

func TestTablesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{}
		slow.fails.Store(true)
		tables := &tables{mounter: slow}
		_, err := tables.list(t.Context())
		require.ErrorContains(t, err, "no table")

		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		begin := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
		_, err = tables.list(ctx)
		require.ErrorIs(t, err, cause)
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		synctest.Wait()
		require.Equal(t, 100*time.Millisecond, time.Since(begin), "what was read for nobody has ended")

		// Nor is what has not begun yet, and is cancelled, for those who come after.
		go func() { _, _ = tables.list(t.Context()) }()
		time.Sleep(100 * time.Millisecond)
		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(cause)
		_, err = tables.list(ctx)
		require.ErrorIs(t, err, cause)
		slow.fails.Store(false)
		_, err = tables.list(t.Context())
		require.NoError(t, err, "others are not concerned")
	})
}

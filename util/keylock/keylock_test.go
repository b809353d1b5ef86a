package keylock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/keylock"
)

func ExampleMap() {
	var locks keylock.Map
	unlock, err := locks.Lock(context.Background(), "pv-1")
	if err != nil {
		return // the context ended first
	}
	defer unlock()
	fmt.Println("pv-1 is ours")
	// Output: pv-1 is ours
}

func TestOneHolderPerKey(t *testing.T) {
	var locks keylock.Map
	counts := make([]int, 4) // a race detector's prey: guarded by the locks alone
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			key := i % len(counts)
			for range 100 {
				unlock, err := locks.Lock(t.Context(), fmt.Sprint(key))
				if err != nil {
					t.Error(err)
					return
				}
				counts[key]++
				unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, []int{1600, 1600, 1600, 1600}, counts)
	require.Zero(t, locks.Len())
}

func TestContextEndsTheWait(t *testing.T) {
	var locks keylock.Map
	unlock, err := locks.Lock(t.Context(), "a")
	require.NoError(t, err)

	cause := errors.New("no patience")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
	defer cancel()
	_, err = locks.Lock(ctx, "a")
	require.ErrorIs(t, err, cause)
	_, err = locks.Lock(ctx, "b")
	require.ErrorIs(t, err, cause, "an ended context takes no free lock either")

	other, err := locks.Lock(t.Context(), "b")
	require.NoError(t, err, "another key is not held up")
	other()
	unlock()
	require.Zero(t, locks.Len())
}

func TestTryLock(t *testing.T) {
	var m keylock.Map
	unlock, ok := m.TryLock("a")
	require.True(t, ok)
	_, ok = m.TryLock("a")
	require.False(t, ok)
	other, ok := m.TryLock("b")
	require.True(t, ok)
	other()
	unlock()
	require.Zero(t, m.Len())
	unlock, err := m.Lock(t.Context(), "a")
	require.NoError(t, err)
	_, ok = m.TryLock("a")
	require.False(t, ok)
	unlock()
	require.Zero(t, m.Len())
}

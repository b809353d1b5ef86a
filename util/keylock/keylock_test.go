package keylock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
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
	counts := make([]int, 4) // guarded by the locks alone, for the race detector
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

// TestWaiters: a lock passes to a waiter, and to none whose context has ended.
func TestWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m keylock.Map
		unlock, err := m.Lock(t.Context(), "a")
		require.NoError(t, err)
		leaving, leave := context.WithCancel(t.Context())
		served := make(chan error, 3)
		for _, ctx := range []context.Context{leaving, t.Context(), t.Context()} {
			go func() {
				unlock, err := m.Lock(ctx, "a")
				if err == nil {
					unlock()
				}
				served <- err
			}()
			synctest.Wait()
		}
		leave()
		require.ErrorIs(t, <-served, context.Canceled)
		synctest.Wait()
		require.Empty(t, served, "the lock is held")
		unlock()
		require.NoError(t, errors.Join(<-served, <-served))
		require.Zero(t, m.Len())
	})
}

// TestAllocations: locking a free key does not allocate.
func TestAllocations(t *testing.T) {
	var m keylock.Map
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		unlock, err := m.Lock(ctx, "a")
		if err != nil {
			panic(err)
		}
		other, _ := m.TryLock("b")
		unlock()
		other()
	}))
	for range 100 { // more than mostSpare
		var unlocks []func()
		for i := range 100 {
			unlock, ok := m.TryLock(fmt.Sprint(i))
			require.True(t, ok)
			unlocks = append(unlocks, unlock)
		}
		require.Equal(t, 100, m.Len())
		for _, unlock := range unlocks {
			unlock()
		}
	}
	require.Zero(t, m.Len())
}

// TestAwait: the lock is held until work ends, also after the caller has returned.
func TestAwait(t *testing.T) {
	var m keylock.Map
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan struct{})
	_, began, err := keylock.Await(ctx, m.Key("key"), 0, func() (int, error) { cancel(); <-end; return 7, nil }, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, began)
	_, ok := m.TryLock("key")
	require.False(t, ok)
	_, began, err = keylock.Await(ctx, m.Key("key"), 0, func() (int, error) { return 8, nil }, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, began)
	close(end)
	value, began, err := keylock.Await(t.Context(), m.Key("key"), 0, func() (int, error) { return 9, nil }, nil)
	require.NoError(t, err)
	require.True(t, began)
	require.Equal(t, 9, value)
	require.Zero(t, m.Len())
}

// TestMapOutlivesBubbles: a map serves several bubbles of testing/synctest, one after the other.
func TestMapOutlivesBubbles(t *testing.T) {
	var m keylock.Map
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			unlock, err := m.Lock(t.Context(), "a")
			require.NoError(t, err)
			unlock()
		})
	}
	unlock, ok := m.TryLock("b")
	require.True(t, ok)
	unlock()
}

func ExampleAwait() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var asking keylock.Map // a path that hangs costs one goroutine for any number of calls
	for range 3 {
		_, began, err := keylock.Await(ctx, asking.Key("/mnt/dead"), 0, func() (int, error) {
			select {} // a system call that does not return
		}, nil)
		fmt.Println(began, err)
	}
	// Output:
	// true context deadline exceeded
	// false context deadline exceeded
	// false context deadline exceeded
}

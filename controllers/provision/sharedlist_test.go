package provision

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSharedLists: a caller receives a list that began after its call, and concurrent callers share
// one.
func TestSharedLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		lists := map[string]int{}
		s := sharedLists[int]{read: func(_ context.Context, namespace string) (int, error) {
			mu.Lock()
			lists[namespace]++
			n := lists[namespace]
			mu.Unlock()
			time.Sleep(time.Second)
			return n, errors.New("partial")
		}}
		results := make(chan int, 20)
		get := func(namespace string) {
			go func() {
				n, err := s.get(t.Context(), namespace)
				if err != nil {
					results <- n
				}
			}()
			synctest.Wait()
		}
		get("a")
		for range 9 {
			get("a")
		}
		get("b")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		mu.Lock()
		require.Equal(t, map[string]int{"a": 2, "b": 1}, lists)
		mu.Unlock()
		require.Len(t, results, 11)
		first, twos := 0, 0
		for range 11 {
			if n := <-results; n == 2 {
				twos++
			} else {
				first++
			}
		}
		require.Equal(t, 9, twos)
		require.Equal(t, 2, first)
		get("a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 3, <-results, "no result is kept")
	})
}

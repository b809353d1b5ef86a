package sharedlist

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
		s := Lists[int]{Read: func(_ context.Context, namespace string) (int, error) {
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
				n, err := s.Get(t.Context(), namespace)
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

// TestSharedListEnds: a caller whose context ends returns at once, and the other callers receive a list
// all the same.
func TestSharedListEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan int)
		s := Lists[int]{Read: func(ctx context.Context, _ string) (int, error) {
			select {
			case n := <-proceed:
				return n, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}}
		type result struct {
			n   int
			err error
		}
		get := func() (end func(error), results chan result) {
			ctx, cancel := context.WithCancelCause(t.Context())
			results = make(chan result, 1)
			go func() {
				n, err := s.Get(ctx, "a")
				results <- result{n, err}
			}()
			synctest.Wait()
			return cancel, results
		}
		_, reader := get()
		endSecond, second := get() // has to read the next list
		_, third := get()
		endFourth, fourth := get()
		gone := errors.New("gone")
		endFourth(gone)
		require.Equal(t, result{0, gone}, <-fourth, "waits for the list of another caller")
		endSecond(gone)
		require.Equal(t, result{0, gone}, <-second, "waits for the end of the list that runs")
		synctest.Wait()
		proceed <- 1
		require.Equal(t, result{1, nil}, <-reader)
		synctest.Wait()
		endFifth, fifth := get() // reads the list after that of the third one
		proceed <- 2
		require.Equal(t, result{2, nil}, <-third)
		synctest.Wait()
		endSixth, sixth := get()
		endFifth(gone)
		require.ErrorIs(t, (<-fifth).err, context.Canceled, "reads")
		proceed <- 3
		require.Equal(t, result{3, nil}, <-sixth)
		endSixth(nil)
	})
}

// TestPanicInRead: a caller whose read panics leaves the other callers to read another list.
func TestPanicInRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		s := Lists[int]{Read: func(context.Context, string) (int, error) {
			reads++
			panics := reads == 2
			time.Sleep(time.Second)
			if panics {
				panic("broken client")
			}
			return 7, nil
		}}
		for range 2 { // the second one begins the next list
			go func() {
				defer func() { _ = recover() }()
				_, _ = s.Get(t.Context(), "a")
			}()
			synctest.Wait()
		}
		n, err := s.Get(t.Context(), "a") // waits for the second one
		require.NoError(t, err)
		require.Equal(t, 7, n)
		require.Equal(t, 3, reads)
	})
}

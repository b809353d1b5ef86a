package workers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var conflict = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", nil)

// A recorder is a handle function that notes its calls.
type recorder struct {
	mu      sync.Mutex
	start   time.Time
	handled []string
	at      []time.Duration
	next    func(key string) (workers.Result, error)
}

func (r *recorder) handle(_ context.Context, key string) (workers.Result, error) {
	r.mu.Lock()
	r.handled = append(r.handled, key)
	r.at = append(r.at, time.Since(r.start))
	next := r.next
	r.mu.Unlock()
	if next == nil {
		return workers.Result{}, nil
	}
	return next(key)
}

func (r *recorder) keys() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handled
}

// inPool runs test with a pool that runs after add has added the first keys.
func inPool(t *testing.T, config workers.Config[string], add func(*workers.Pool[string]), test func(*recorder, *workers.Pool[string])) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		config.Name = "test"
		if config.Handle == nil {
			config.Handle = r.handle
		}
		pool, err := workers.New(config)
		require.NoError(t, err)
		add(pool)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- pool.Run(ctx) }()
		test(r, pool)
		cancel()
		require.NoError(t, <-ended)
	})
}

func none(*workers.Pool[string]) {}

func TestNewsComesBeforeReplays(t *testing.T) {
	inPool(t, workers.Config[string]{Workers: 1}, func(p *workers.Pool[string]) {
		p.AddReplay("r1")
		p.AddReplay("r2")
		p.AddReplay("r3")
		p.Add("n1")
		p.Add("r2") // a replay becomes news
		p.Add("n1")
		p.AddReplay("n1") // news remains news
		require.Equal(t, 4, p.Len())
	}, func(r *recorder, _ *workers.Pool[string]) {
		require.Equal(t, []string{"n1", "r2", "r1", "r3"}, r.keys())
	})
}

// TestReplaysAreNotStarved: one turn in 16 is for a replay.
func TestReplaysAreNotStarved(t *testing.T) {
	inPool(t, workers.Config[string]{Workers: 1}, func(p *workers.Pool[string]) {
		p.AddReplay("replay")
		for i := range 100 {
			p.Add(string(rune('A' + i)))
		}
	}, func(r *recorder, _ *workers.Pool[string]) {
		require.Equal(t, "replay", r.keys()[15])
		require.Len(t, r.keys(), 101)
	})
}

// TestOneWorkerForEachKey: a key that is added while it is handled is handled once more
// afterwards, and other keys at the same time.
func TestOneWorkerForEachKey(t *testing.T) {
	var mu sync.Mutex
	busy, handled := map[string]int{}, map[string]int{}
	handle := func(_ context.Context, key string) (workers.Result, error) {
		mu.Lock()
		busy[key]++
		handled[key]++
		require.Equal(t, 1, busy[key])
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		busy[key]--
		mu.Unlock()
		return workers.Result{}, nil
	}
	inPool(t, workers.Config[string]{Handle: handle}, none, func(_ *recorder, p *workers.Pool[string]) {
		p.Add("a")
		p.Add("b")
		synctest.Wait()
		counts := func() (map[string]int, map[string]int) {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(busy), maps.Clone(handled)
		}
		now, _ := counts()
		require.Equal(t, map[string]int{"a": 1, "b": 1}, now)
		p.Add("a")
		p.Add("a")
		time.Sleep(time.Minute)
		_, all := counts()
		require.Equal(t, map[string]int{"a": 2, "b": 1}, all)
	})
}

func TestBackoff(t *testing.T) {
	inPool(t, workers.Config[string]{Backoff: time.Second, MaxBackoff: 5 * time.Second}, none, func(r *recorder, p *workers.Pool[string]) {
		r.next = func(string) (workers.Result, error) { return workers.Result{}, errors.New("fails") }
		p.Add("a")
		time.Sleep(18 * time.Second)
		synctest.Wait()
		seconds := []time.Duration{0, 1, 3, 7, 12, 17}
		for i := range seconds {
			seconds[i] *= time.Second
		}
		require.Equal(t, seconds, r.at)

		p.Add("a") // news ends the pause, and its failure starts another one
		require.Len(t, r.keys(), 7)
		time.Sleep(4900 * time.Millisecond)
		require.Len(t, r.keys(), 7, "the pause of the failure before has ended")

		r.next = nil
		p.Add("a")
		require.Len(t, r.keys(), 8)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, r.keys(), 8, "a success ends the pause")
		r.next = func(string) (workers.Result, error) { return workers.Result{}, errors.New("fails") }
		p.Add("a")
		time.Sleep(time.Second)
		require.Len(t, r.keys(), 10, "a success resets the pause")
	})
}

// TestReplaysKeepTheBackoff: resyncs retry no failing key before its pause ends, and end a pause that
// follows a success.
func TestReplaysKeepTheBackoff(t *testing.T) {
	inPool(t, workers.Config[string]{Backoff: time.Hour}, none, func(r *recorder, p *workers.Pool[string]) {
		calls := 0
		r.next = func(string) (workers.Result, error) {
			calls++
			if calls == 1 {
				return workers.Result{}, errors.New("fails")
			}
			return workers.Result{After: time.Hour}, nil
		}
		p.Add("a")
		require.Len(t, r.keys(), 1)
		p.AddReplay("a")
		require.Len(t, r.keys(), 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, r.keys(), 2)
		p.AddReplay("a")
		require.Len(t, r.keys(), 3)
	})
}

// TestReplayDuringATurn: a replay that comes during a turn keeps the pause of a failure, and follows a success.
func TestReplayDuringATurn(t *testing.T) {
	inPool(t, workers.Config[string]{Backoff: time.Hour}, none, func(r *recorder, p *workers.Pool[string]) {
		calls := 0
		r.next = func(string) (workers.Result, error) {
			calls++
			if calls < 4 {
				p.AddReplay("a")
			}
			if calls == 1 {
				return workers.Result{}, errors.New("fails")
			}
			return workers.Result{}, nil
		}
		p.Add("a")
		require.Len(t, r.keys(), 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, r.keys(), 4)
	})
}

func TestConflictsAreNoFailures(t *testing.T) {
	inPool(t, workers.Config[string]{Backoff: time.Hour}, none, func(r *recorder, p *workers.Pool[string]) {
		calls := 0
		r.next = func(string) (workers.Result, error) {
			calls++
			if calls <= 5 {
				return workers.Result{}, conflict
			}
			return workers.Result{}, nil
		}
		p.Add("a")
		require.Len(t, r.keys(), 6, "handled again at once")

		r.next = func(string) (workers.Result, error) { return workers.Result{}, conflict }
		p.Add("a")
		require.Len(t, r.keys(), 12, "the sixth conflict in a row is a failure")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, r.keys(), 18)
	})
}

func TestAfter(t *testing.T) {
	inPool(t, workers.Config[string]{}, none, func(r *recorder, p *workers.Pool[string]) {
		r.next = func(string) (workers.Result, error) { return workers.Result{After: time.Minute}, nil }
		p.Add("a")
		time.Sleep(59 * time.Second)
		require.Len(t, r.keys(), 1)
		p.Add("a") // starts the pause anew
		time.Sleep(59 * time.Second)
		require.Len(t, r.keys(), 2)
		time.Sleep(time.Second)
		require.Len(t, r.keys(), 3)
	})
}

// logged receives the lines of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) { l <- string(line); return len(line), nil }

func TestPanicIsAFailure(t *testing.T) {
	log := make(logged, 2)
	logger := slog.New(slog.NewTextHandler(log, nil))
	inPool(t, workers.Config[string]{Logger: logger}, none, func(r *recorder, p *workers.Pool[string]) {
		r.next = func(key string) (workers.Result, error) {
			if key == "bad" {
				panic("bad object")
			}
			return workers.Result{}, nil
		}
		p.Add("bad")
		p.Add("good")
		require.ElementsMatch(t, []string{"bad", "good"}, r.keys())
		line := <-log
		require.Contains(t, line, "bad object")
		require.Contains(t, line, "pool_test.go", "the stack")
		time.Sleep(500 * time.Millisecond)
		require.Len(t, r.keys(), 3)
	})
}

// TestRunEndsWithItsContext: waiting keys are dropped, a running handle ends first, and no timer
// is left.
func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled, ended int
		pool, err := workers.New(workers.Config[string]{Name: "test", Workers: 1,
			Handle: func(ctx context.Context, _ string) (workers.Result, error) {
				handled++
				<-ctx.Done()
				time.Sleep(time.Second)
				ended++
				return workers.Result{After: time.Minute}, ctx.Err()
			}})
		require.NoError(t, err)
		pool.Add("a")
		pool.Add("b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, pool.Run(ctx))
		require.Equal(t, 1, handled)
		require.Equal(t, 1, ended)
		pool.Add("c")
		require.Error(t, pool.Run(t.Context()))
	})
}

func TestConfigIsChecked(t *testing.T) {
	handle := func(context.Context, string) (workers.Result, error) { return workers.Result{}, nil }
	tests := map[string]workers.Config[string]{
		"workers: Name must not be empty":                                     {Handle: handle},
		"workers: Handle must not be nil":                                     {Name: "x"},
		"workers: Workers must be at least 0, got -1":                         {Name: "x", Handle: handle, Workers: -1},
		"workers: Backoff and MaxBackoff must be at least 0, got -1s and 0s":  {Name: "x", Handle: handle, Backoff: -time.Second},
		"workers: Backoff and MaxBackoff must be at least 0, got 0s and -1ns": {Name: "x", Handle: handle, MaxBackoff: -1},
	}
	for want, config := range tests {
		_, err := workers.New(config)
		require.EqualError(t, err, want)
	}
}

// TestAddAllocations: adding a key that waits allocates nothing.
func TestAddAllocations(t *testing.T) {
	pool, err := workers.New(workers.Config[string]{Name: "x", Handle: (&recorder{}).handle})
	require.NoError(t, err)
	pool.Add("a")
	require.Zero(t, testing.AllocsPerRun(100, func() { pool.Add("a"); pool.AddReplay("a") }))
}

// TestDenied: a denial is reported once for each text in a row, and again after a success.
func TestDenied(t *testing.T) {
	right := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no"))
	other := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "b", errors.New("no"))
	results := []error{right, errors.New("an outage"), conflict, right, other, other, nil, other}
	var denied []string
	config := workers.Config[string]{Backoff: time.Second, Denied: func(key string, err error) { denied = append(denied, key+" "+err.Error()) }}
	inPool(t, config, none, func(r *recorder, p *workers.Pool[string]) {
		r.next = func(string) (workers.Result, error) {
			next := results[0]
			results = append(results[1:], nil)
			return workers.Result{}, next
		}
		p.Add("k")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"k " + right.Error(), "k " + other.Error()}, denied)
		p.Add("k")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"k " + right.Error(), "k " + other.Error(), "k " + other.Error()}, denied)
	})
}

// TestRetryAfter: a key is not handled again before the time that the API server asks for.
func TestRetryAfter(t *testing.T) {
	for seconds, want := range map[int]time.Duration{0: time.Second, 30: 30 * time.Second, 1 << 30: time.Hour} {
		inPool(t, workers.Config[string]{Backoff: time.Second}, none, func(r *recorder, p *workers.Pool[string]) {
			results := []error{fmt.Errorf("patch: %w", apierrors.NewTooManyRequests("later", seconds)), nil}
			r.next = func(string) (workers.Result, error) {
				next := results[0]
				results = results[1:]
				return workers.Result{}, next
			}
			p.Add("k")
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			require.Equal(t, []time.Duration{0, want}, r.at)
		})
	}
}

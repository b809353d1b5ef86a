package progress_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/progress"
)

// A record holds values of received reports.
type record[T any] struct {
	mu     sync.Mutex
	values []T
}

func (r *record[T]) add(value T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values = append(r.values, value)
}

func (r *record[T]) all() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.values)
}

// collect returns a receiver that adds the texts of reports to lines.
func collect(lines *record[string]) func(progress.Report) {
	return func(r progress.Report) { lines.add(r.String()) }
}

func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all, sparse record[string]
		ctx := progress.With(t.Context(), collect(&all))
		ctx = progress.With(ctx, progress.Sparse(collect(&sparse)))
		began := time.Now()
		end := progress.Begin(ctx, progress.Step{Name: progress.Scrub, Object: "/d", Unit: progress.Entries,
			Count: func() (int64, int64) { return int64(time.Since(began) / time.Second), 0 }})
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"scrub /d: 1 entries, 1s"}, all.all())
		time.Sleep(150*time.Second + time.Second/2)
		end()
		end()
		synctest.Wait()
		require.Len(t, all.all(), 152)
		require.Equal(t, "scrub /d: 151 entries, ended after 2m32s", all.all()[151])
		require.Equal(t, []string{
			"scrub /d: 1 entries, 1s", "scrub /d: 10 entries, 10s", "scrub /d: 60 entries, 1m0s",
			"scrub /d: 120 entries, 2m0s", "scrub /d: 151 entries, ended after 2m32s",
		}, sparse.all())
		time.Sleep(time.Minute)
		require.Len(t, all.all(), 152)
	})
}

// TestShortSteps: a step that ends before the first interval is not reported.
func TestShortSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := progress.With(t.Context(), func(r progress.Report) { t.Error(r) })
		end := progress.Begin(ctx, progress.Step{Name: progress.Format, Object: "/dev/vdb"})
		time.Sleep(progress.Interval - 1)
		end()
		time.Sleep(time.Minute)
	})
}

// TestSlowReceiver: the end of a step does not wait for a receiver, which misses reports.
func TestSlowReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var elapsed record[time.Duration]
		began := time.Now()
		ctx := progress.With(t.Context(), func(r progress.Report) {
			elapsed.add(r.Elapsed)
			time.Sleep(10 * time.Second)
		})
		end := progress.Begin(ctx, progress.Step{Name: progress.Format, Object: "/dev/vdb"})
		time.Sleep(5 * time.Second)
		end()
		require.Equal(t, 5*time.Second, time.Since(began))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Second, 11 * time.Second}, elapsed.all())
	})
}

// TestSeveralReceivers: a receiver that hangs delays no other one.
func TestSeveralReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var reports record[string]
		ctx := progress.With(t.Context(), func(progress.Report) { <-release })
		ctx = progress.With(ctx, collect(&reports))
		end := progress.Begin(ctx, progress.Step{Name: progress.Format, Object: "/dev/vdb"})
		time.Sleep(2*time.Second + 1)
		end()
		synctest.Wait()
		require.Len(t, reports.all(), 3)
		close(release)
	})
}

// TestContexts: a context without a receiver reports nothing, one with several to each, and an
// inheriting one to its own and to the inherited.
func TestContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var own, server record[string]
		none := t.Context()
		require.Equal(t, none, progress.With(none, nil))
		require.Equal(t, none, progress.With(none, progress.Sparse(nil)))
		require.Equal(t, none, progress.Inherit(none, none))
		progress.Begin(none, progress.Step{Name: progress.Format})()

		ofServer := progress.With(none, collect(&server))
		ofCall := progress.With(none, collect(&own))
		both := progress.Inherit(ofCall, ofServer)
		require.Equal(t, both, progress.Inherit(both, ofServer))
		_ = progress.With(ofServer, func(progress.Report) { t.Error("of a sibling") })
		for _, ctx := range []context.Context{ofServer, ofCall, both} {
			end := progress.Begin(ctx, progress.Step{Name: progress.Grow, Object: "/dev/vdb"})
			time.Sleep(time.Second + 1)
			end()
			synctest.Wait()
		}
		want := []string{"grow /dev/vdb: 1s", "grow /dev/vdb: ended after 1s"}
		require.Equal(t, append(want, want...), own.all())
		require.Equal(t, append(want, want...), server.all())
	})
}

func TestIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var due record[string]
		ctx := progress.With(t.Context(), func(r progress.Report) {
			for name, pauses := range map[string][2]time.Duration{
				"30 s, 1 min": {30 * time.Second, time.Minute}, "at once": {0, time.Minute}, "once": {5 * time.Second, 0}, "negative": {5 * time.Second, -1},
			} {
				if r.IsDue(pauses[0], pauses[1]) {
					due.add(fmt.Sprint(name, " at ", r.Elapsed))
				}
			}
		})
		end := progress.Begin(ctx, progress.Step{Name: progress.Format})
		time.Sleep(100*time.Second + 1)
		end()
		synctest.Wait()
		require.ElementsMatch(t, []string{
			"at once at 1s", "at once at 1m0s", "once at 5s", "negative at 5s", "30 s, 1 min at 30s", "30 s, 1 min at 1m30s",
		}, due.all())
		require.False(t, progress.Report{}.IsDue(0, 0))
	})
}

func TestString(t *testing.T) {
	for want, r := range map[string]progress.Report{
		"download linux: 12.3 of 38.6 MB, 3s": {Step: progress.Download, Object: "linux", Done: 12_340_000, Total: 38_600_000, Unit: progress.Bytes, Elapsed: 3 * time.Second},
		"download linux: 0.0 MB, 1s":          {Step: progress.Download, Object: "linux", Unit: progress.Bytes, Elapsed: 1234 * time.Millisecond},
		"copy a b: 5 of 7 fi les, 2s":         {Step: "copy", Object: "a\nb", Done: 5, Total: 7, Unit: "fi\nles", Elapsed: 2 * time.Second},
		" : 0s":                               {},
	} {
		require.Equal(t, want, r.String())
	}
	long := strings.Repeat("x", 1<<20)
	require.Less(t, len(progress.Report{Step: long, Object: long, Unit: long}.String()), 2048)
}

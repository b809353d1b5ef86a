package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// pingCalls is the number of calls of the program in the role "ask"; the Go runtime makes that call, too.
const pingCalls = 1000

func TestMain(m *testing.M) {
	if os.Getenv(roleVar) == "ask" {
		for range pingCalls {
			_ = unix.Getpid()
		}
		os.Exit(0)
	}
	if os.Getenv(roleVar) == "trace" {
		if err := trace(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func counted(t *testing.T, work func() error) int {
	t.Helper()
	calls, err := countCalls(work)
	if errors.Is(err, errNoTracing) {
		mounttest.SkipWithout(t, "ptrace", err)
	}
	require.NoError(t, err)
	return calls
}

// TestCountCalls: the calls of all threads and of programs count, but not those that the Go
// runtime makes for itself.
func TestCountCalls(t *testing.T) {
	const calls = 100
	ask := func() {
		for range calls {
			_ = unix.Getppid()
		}
	}
	// The runtime wakes its poller by a read and a write, indistinguishable from the program's.
	const others = 8
	require.InDelta(t, calls, counted(t, func() error {
		ask()
		return nil
	}), others)
	const threads = 40 // more than the runtime's idle threads
	require.InDelta(t, threads*calls, counted(t, func() error {
		var all sync.WaitGroup
		together := make(chan bool)
		for range threads {
			all.Go(func() {
				runtime.LockOSThread() // a thread that ends with the goroutine
				<-together
				ask()
			})
		}
		close(together)
		all.Wait()
		runtime.GC()
		return nil
	}), others)
	asking, err := program("ask")
	require.NoError(t, err)
	require.Greater(t, counted(t, asking.Run), pingCalls, "of programs all calls count")
}

// TestCountCallsReportsTheError: countCalls returns the error of the work.
func TestCountCallsReportsTheError(t *testing.T) {
	failed := errors.New("failed")
	_, err := countCalls(func() error { return failed })
	if errors.Is(err, errNoTracing) {
		mounttest.SkipWithout(t, "ptrace", err)
	}
	require.ErrorIs(t, err, failed)
}

func newBench(t *testing.T) (b *bench, row func() Row) {
	var out bytes.Buffer
	b = &bench{ctx: t.Context(), subject: "test", dir: t.TempDir(), rounds: 3, budget: time.Second, batch: time.Millisecond, out: json.NewEncoder(&out)}
	return b, func() Row {
		rows, err := readRows(&out)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		return rows[0]
	}
}

func doing(work func() error) side {
	return side{up: work, seen: func() (string, error) { return "done", nil }}
}

func nothing() error { return nil }

func TestMeasure(t *testing.T) {
	b, row := newBench(t)
	var prepared, tidied, failures int
	sleep := func(d time.Duration) func() error {
		return func() error {
			time.Sleep(d)
			return nil
		}
	}
	ours := doing(sleep(4 * time.Millisecond))
	ours.per = 2
	ours.prepare = func() error { prepared++; return nil }
	ours.tidy = func() error { tidied++; return nil }
	ours.failed = func() int { failures++; return 1 }
	require.NoError(t, b.measure(trial{work: "sleep", size: 7, uncounted: true, ours: ours, peer: doing(sleep(time.Millisecond))}))
	r := row()
	require.Equal(t, "test", r.Subject)
	require.Equal(t, 7, r.Size)
	require.GreaterOrEqual(t, r.Ours.Time, 2000.0, "half of the sleep, in microseconds")
	require.InDelta(t, 0.5, r.Ours.Failed, 0, "one of the two operations of each round")
	require.Equal(t, 3, failures)
	require.Equal(t, 1+3, prepared, "for the comparison, and for each round")
	require.Equal(t, prepared, tidied)
	require.Nil(t, r.Floor)
	require.NotNil(t, r.Peer)
}

// TestMeasureComparesTheWork: sides with different resulting states are not measured.
func TestMeasureComparesTheWork(t *testing.T) {
	b, _ := newBench(t)
	other := side{up: nothing, seen: func() (string, error) { return "half done", nil }}
	for name, test := range map[string]trial{
		"peer":  {ours: doing(nothing), peer: other},
		"floor": {ours: doing(nothing), floor: other},
	} {
		require.ErrorIs(t, b.measure(test), errOtherWork, name)
	}
	state := "up"
	left := side{
		up: func() error { state = "up"; return nil }, down: func() error { state = "left"; return nil },
		seen: func() (string, error) { return state, nil },
	}
	clean := side{up: nothing, down: nothing, seen: func() (string, error) { return "up", nil }}
	require.ErrorIs(t, b.measure(trial{ours: clean, peer: left}), errOtherWork, "after down")
}

// TestMeasureWithoutPeer: a peer that fails is reported with its error; ours and the floor must
// succeed.
func TestMeasureWithoutPeer(t *testing.T) {
	fails := doing(func() error { return fmt.Errorf("walk: %w", unix.ENAMETOOLONG) })
	b, row := newBench(t)
	require.NoError(t, b.measure(trial{ours: doing(nothing), peer: fails, uncounted: true}))
	require.Equal(t, "file name too long", row().Peer.Refused)
	require.ErrorIs(t, b.measure(trial{ours: fails}), unix.ENAMETOOLONG)
	require.ErrorIs(t, b.measure(trial{ours: doing(nothing), floor: fails}), unix.ENAMETOOLONG)
}

// TestCalibrate: ours and the floor repeat short work equally often, the peer by its own
// duration, and work with preparation is not repeated.
func TestCalibrate(t *testing.T) {
	c := func(name string, fastest time.Duration) *contender { return &contender{name: name, fastest: fastest} }
	all := []*contender{c("floor", 5*time.Microsecond), c("ours", 20*time.Microsecond), c("peer", 100*time.Microsecond)}
	calibrate(all, time.Millisecond)
	require.Equal(t, []int{200, 200, 10}, []int{all[0].times, all[1].times, all[2].times})
	long := []*contender{c("floor", 0), c("ours", 0), c("peer", time.Minute)}
	calibrate(long, time.Millisecond)
	require.Equal(t, []int{1, 1, 1}, []int{long[0].times, long[1].times, long[2].times})
}

// TestAtomicWriters: the results of all writers look the same to a container.
func TestAtomicWriters(t *testing.T) {
	dir := t.TempDir()
	writers := map[string]func(dir string, files map[string][]byte) error{
		"raw":  (&rawSet{}).write,
		"peer": func(dir string, files map[string][]byte) error { return atomicWriter{dir}.write(files) },
		"ours": (&bench{ctx: t.Context()}).writeSet,
	}
	s := sets{files: 4}
	for n, changed := range []int{4, 4, 1, 0} {
		s.n = n
		files := s.content(changed)
		var want string
		for name, write := range writers {
			require.NoError(t, makeAll(filepath.Join(dir, name)))
			require.NoError(t, write(filepath.Join(dir, name), files), name)
			seen, err := visible(filepath.Join(dir, name))
			require.NoError(t, err)
			if want == "" {
				want = seen
			}
			require.Equal(t, want, seen, "%s, set %d", name, n)
		}
		require.NotEmpty(t, want)
	}
}

// TestChooseSubjects: all subjects by default; unknown ones are refused.
func TestChooseSubjects(t *testing.T) {
	all, err := choose("")
	require.NoError(t, err)
	require.Len(t, all, len(subjects))
	some, err := choose("restart,bind")
	require.NoError(t, err)
	require.Equal(t, []string{"restart", "bind"}, []string{some[0].name, some[1].name})
	_, err = choose("bind,other")
	require.ErrorIs(t, err, errNoSubject)
}

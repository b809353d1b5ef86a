package testbed

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Simulation is a test with a sequence of steps and faults for each seed.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 1000-2000); VOLUMEKIT_SEED is a seed
// to replay with its trace.
type Simulation struct {
	// Run runs one seed, and returns its trace and its failures.
	Run func(t *testing.T, seed uint64) (trace, failures []string)
	// Short and Seeds are the numbers of seeds without VOLUMEKIT_SEEDS, with -short and otherwise.
	Short, Seeds uint64
	// Serial runs one seed at a time. Otherwise each processor runs one.
	Serial bool
}

// Test runs the seeds until one fails.
func (s Simulation) Test(t *testing.T) {
	t.Helper()
	if seed, ok := ReplayedSeed(t); ok {
		trace, failures := s.Run(t, seed)
		t.Log(strings.Join(trace, "\n"))
		require.Empty(t, failures)
		return
	}
	first, last := Seeds(t, s.Short, s.Seeds)
	var begun atomic.Uint64
	work := func(t *testing.T) {
		for seed := first + begun.Add(1) - 1; seed < last; seed = first + begun.Add(1) - 1 {
			if trace, failures := s.Run(t, seed); len(failures) > 0 {
				begun.Store(last) // the other workers end
				t.Fatalf("%s\nreplay with VOLUMEKIT_SEED=%d; the last of the trace:\n%s", failures[0], seed,
					strings.Join(trace[max(0, len(trace)-100):], "\n"))
			}
		}
	}
	if s.Serial {
		work(t)
		return
	}
	for n := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint("worker ", n), func(t *testing.T) {
			t.Parallel()
			work(t)
		})
	}
}

// Seeds returns the first seed, and the seed after the last one: those of VOLUMEKIT_SEEDS, otherwise the
// first short ones with -short, or the first all.
func Seeds(t *testing.T, short, all uint64) (first, last uint64) {
	t.Helper()
	text := os.Getenv("VOLUMEKIT_SEEDS")
	switch {
	case text == "" && testing.Short():
		return 0, short
	case text == "":
		return 0, all
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		from, to = "0", text
	}
	first, err := strconv.ParseUint(from, 10, 64)
	require.NoError(t, err)
	last, err = strconv.ParseUint(to, 10, 64)
	require.NoError(t, err)
	return first, last
}

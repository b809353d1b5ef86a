package testbed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomSeed is the value of VOLUMEKIT_SEED for another seed on each run, as searches have it.
const randomSeed = "random"

// Seed returns the seed of a test that makes random choices, and logs it: the number in VOLUMEKIT_SEED, another one
// each time if that is "random", and 1 without it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv("VOLUMEKIT_SEED"); text == randomSeed {
		seed = rand.Uint64N(1_000_000_000)
	} else if text != "" {
		seed = parseSeed(t, text)
	}
	t.Logf("VOLUMEKIT_SEED=%d", seed)
	return seed
}

// ReplayedSeed returns the seed that a simulation is to replay with its trace, the number in VOLUMEKIT_SEED. It is
// not ok without one, or if that is "random": a simulation runs many seeds then.
func ReplayedSeed(t testing.TB) (seed uint64, ok bool) {
	t.Helper()
	text := os.Getenv("VOLUMEKIT_SEED")
	if text == "" || text == randomSeed {
		return 0, false
	}
	return parseSeed(t, text), true
}

func parseSeed(t testing.TB, text string) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "VOLUMEKIT_SEED")
	return seed
}

package testbed

import (
	"context"
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// Rounds returns the number of rounds and the context of a program of mounttest.Main: the
// argument at the index is the number, and the next one is "ends" for a context that can end.
func Rounds(p mounttest.Process, index int) (ctx context.Context, rounds int, cancel func()) {
	rounds, err := strconv.Atoi(p.Args[index])
	require.NoError(p, err)
	if p.Args[index+1] != "ends" {
		return context.Background(), rounds, func() {}
	}
	ctx, cancel = context.WithCancel(context.Background())
	return ctx, rounds, cancel
}

// CallsPerRound returns the system calls of one round and their sum: two runs of a program
// (mounttest.CountCalls) differ by so many rounds, and have its start in common.
func CallsPerRound(before, after map[string]int, rounds int) (calls map[string]int, total int) {
	calls = map[string]int{}
	for name := range after {
		calls[name] = (after[name] - before[name] + rounds/2) / rounds
		total += calls[name]
	}
	return calls, total
}

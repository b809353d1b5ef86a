package simtest

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/volumekit/volumekit/internal/testbed"
)

// Simulate runs seeds of a simulation until one fails, each with a cluster of its own in a bubble of
// testing/synctest, see [testbed.Simulation]. After a seed it ends the processes.
func Simulate(t *testing.T, run func(w *World, seed uint64)) {
	economize(t)
	testbed.Simulation{
		Run: func(t *testing.T, seed uint64) (trace, failures []string) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := newWorld(ctx, seed)
				run(w, seed)
				w.end()
				trace, failures = w.Result()
			})
			return trace, failures
		},
		Short: 20, Seeds: 100,
	}.Test(t)
}

// Play takes n steps and checks the states between them. It returns false as soon as the seed has failed.
func (w *World) Play(n int, step, check func()) bool {
	for range n {
		w.RestartCrashed()
		step()
		if w.IntN(3) > 0 { // otherwise the next step happens at the same time
			synctest.Wait()
			check()
		}
		if w.HasFailed() {
			return false
		}
	}
	return true
}

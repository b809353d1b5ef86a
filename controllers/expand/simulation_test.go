package expand_test

import (
	"context"
	"testing"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// TestSimulation runs controllers with the API server in memory and a simulated storage, in a bubble of
// testing/synctest. A seed determines the steps and the faults.
//
// Steps: users raise and lower the requests of claims, and delete claims; a binder gives their volumes to
// new claims; nodes begin, finish and give up expansions; the storage refuses sizes, fails with each kind
// of error, before, after and long after the effect, and gives more than was requested; time passes; the
// controller crashes and starts again; in a fifth of the seeds two controllers run.
//
// Faults: calls to the API server and watches fail in each way of package apitest, and crash the process.
//
// Forbidden states: a capacity of a volume or a claim that the storage, or the file system on the node,
// does not have; a capacity that became smaller. Forbidden calls: for a size that the claim has not
// allocated; for another size while the outcome of a call is open; two for a volume at the same time. The
// rules of calls hold for one controller.
//
// At the end faults stop. Within six hours each claim has what it requests, its volume shows the same
// capacity, and no state, condition or annotation of an expansion is left. Then no call follows.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 1000-2000); VOLUMEKIT_SEED is a
// seed to replay with its trace. The order of goroutines is not part of a seed: a failure may take
// several runs (-count) to appear again.
func TestSimulation(t *testing.T) {
	simtest.Simulate(t, simulate)
}

// A simulation is a cluster and a storage as a test changes them.
type simulation struct {
	*simtest.World
	storage  *simStorage
	hasTwins bool // two controllers run

	// seen are the largest capacities of claims and volumes so far, by UID.
	seen map[types.UID]resource.Quantity
}

// simulate runs a seed.
func simulate(w *simtest.World, seed uint64) {
	s := &simulation{World: w, hasTwins: seed%5 == 4, seen: map[types.UID]resource.Quantity{}}
	s.storage = newSimStorage(s, seed)
	s.run()
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	s.createPairs()
	s.Start(s.controller())
	if s.hasTwins {
		s.Start(s.controller())
	}
	if s.Play(40+s.IntN(60), s.step, s.check) {
		s.calmDown()
	}
}

func (s *simulation) controller() simtest.Program {
	return simtest.Program{Identity: identity, Prepare: func() simtest.Main {
		config := expand.Config{
			Expander: s.storage, Workers: 1 + s.IntN(4), Timeout: time.Duration(s.IntN(2)) * 30 * time.Second,
			Events: func(e api.Event) { s.Log("  event %s %s", e.Reason, e.Message) },
		}
		return func(ctx context.Context, cluster *apitest.Cluster) error {
			config.Cluster = cluster
			return simtest.Run(expand.New(config))(ctx)
		}
	}}
}

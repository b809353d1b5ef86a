package expand_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/internal/testbed"
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
	simtest.Economize(t)
	testbed.Simulation{
		Run:   func(t *testing.T, seed uint64) (trace, failures []string) { return simulate(t, seed).Result() },
		Short: 20, Seeds: 100,
	}.Test(t)
}

// A simulation is a cluster and a storage as a test changes them.
type simulation struct {
	*simtest.Faults
	ctx      context.Context
	cluster  api.Cluster // of the test
	storage  *simStorage
	hasTwins bool // two controllers run
	running  []*simtest.Process

	// seen are the largest capacities of claims and volumes so far, by UID.
	seen map[types.UID]resource.Quantity
}

// simulate runs a seed in a bubble of its own.
func simulate(t *testing.T, seed uint64) (s *simulation) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server := apitest.NewServer(apitest.Config{Seed: seed})
		s = &simulation{
			Faults: &simtest.Faults{
				Rand: rand.New(rand.NewPCG(seed, 1)), Trace: simtest.NewTrace(), Server: server,
				All: append(simtest.OfServer(), simtest.Crashes()...),
			},
			ctx: ctx, cluster: server.Direct(), hasTwins: seed%5 == 4, seen: map[types.UID]resource.Quantity{},
		}
		s.storage = newSimStorage(s, seed)
		s.run()
		for len(s.running) > 0 {
			s.crash()
		}
	})
	return s
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	s.createPairs()
	s.start()
	if s.hasTwins {
		s.start()
	}
	for range 40 + s.IntN(60) {
		s.step()
		if s.IntN(3) > 0 { // otherwise the next step happens at the same time
			synctest.Wait()
			s.check()
		}
		if s.HasFailed() {
			return
		}
	}
	s.calmDown()
}

// start starts a controller.
func (s *simulation) start() {
	s.Log("start")
	config := expand.Config{
		Expander: s.storage, Workers: 1 + s.IntN(4), Timeout: time.Duration(s.IntN(2)) * 30 * time.Second,
		Events: func(e api.Event) { s.Log("  event %s %s", e.Reason, e.Message) },
	}
	s.running = append(s.running, simtest.StartProcess(s.ctx, s.Server, identity, func(ctx context.Context, cluster *apitest.Cluster) error {
		config.Cluster = cluster
		controller, err := expand.New(config)
		if err != nil {
			return err
		}
		return controller.Run(ctx)
	}))
}

// crash ends the first controller at once: none of its calls takes effect any more.
func (s *simulation) crash() {
	p := s.running[0]
	s.running = s.running[1:]
	s.Log("crash")
	s.Must(p.Crash())
}

// restartCrashed starts controllers again whose process a fault has crashed.
func (s *simulation) restartCrashed() {
	for range s.running {
		if !s.running[0].HasCrashed() {
			s.running = append(s.running[1:], s.running[0])
			continue
		}
		s.crash()
		s.start()
	}
}

// pass lets time pass.
func (s *simulation) pass() {
	d := time.Duration(1+s.IntN(60)) * []time.Duration{time.Second, time.Second, time.Minute}[s.IntN(3)]
	s.Log("%v pass", d)
	time.Sleep(d)
}

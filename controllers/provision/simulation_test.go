package provision_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/testbed"
)

// TestSimulation runs controllers, a storage and a binder with the API server in memory, in a bubble of
// testing/synctest. A seed determines the steps and the faults.
//
// Steps: claims come, with classes of each policy and binding mode or without a class, and go, also
// with their finalizer of protection taken by force while a pod runs, and come again with the name;
// users change policies and delete volumes; volumes whose claim lives are released; the scheduler
// selects nodes, nodes go; pods come and go; time passes; the controller crashes and starts again; in a tenth of the seeds two controllers run.
//
// Faults: calls of the storage fail with each kind of error, before and after their effect, hang
// until their context ends, panic, or take effect minutes after they have failed. Calls to the API
// server and watches fail in each way of package apitest, and crash the process. The API server refuses
// objects of a single controller for good.
//
// Forbidden states: a claim has two volumes; storage exists that no volume and no claim with the
// finalizer leads to; storage is deleted while the API server shows a user of its volume or another
// policy; a bound claim has lost its storage.
//
// At the end faults stop. Within two hours each claim is bound and each call has ended; then no
// call follows. After the last claim no storage is left but that of the policy Retain.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 1000-2000); VOLUMEKIT_SEED is a
// seed to replay with its trace. The order of goroutines is not part of a seed: a failure may take
// several runs (-count) to appear again.
func TestSimulation(t *testing.T) {
	economize(t)
	testbed.Simulation{
		Run: func(t *testing.T, seed uint64) (trace, failures []string) {
			s := simulate(t, seed)
			return s.trace, s.failures
		},
		Short: 20, Seeds: 100,
	}.Test(t)
}

// economize saves a third of the processor time until t ends: bubbles are short-lived garbage, and
// informers log each fault to os.Stderr by klog.
func economize(t *testing.T) {
	percent, stderr := debug.SetGCPercent(800), os.Stderr
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	os.Stderr = null
	t.Cleanup(func() {
		os.Stderr = stderr
		debug.SetGCPercent(percent)
		require.NoError(t, null.Close())
	})
}

// A simulation is a cluster as a test changes it.
type simulation struct {
	*rand.Rand
	ctx      context.Context
	server   *apitest.Server
	cluster  api.Cluster // of the test
	storage  *simStorage
	hasTwins bool // two controllers run, and none crashes
	running  []*simController
	faults   []func() // ends of faults
	began    time.Time
	number   int
	isCalm   bool

	mu       sync.Mutex
	trace    []string
	failures []string
}

// A simController is a controller in a process.
type simController struct {
	cluster *apitest.Cluster
	cancel  context.CancelFunc
	ended   chan error
}

// simulate runs a seed in a bubble of its own.
func simulate(t *testing.T, seed uint64) (s *simulation) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server := apitest.NewServer(apitest.Config{Seed: seed})
		s = &simulation{
			Rand: rand.New(rand.NewPCG(seed, 1)), ctx: ctx, server: server, cluster: server.Direct(), began: time.Now(),
			hasTwins: seed%10 == 9,
		}
		s.storage = newSimStorage(s, seed)
		s.createClasses()
		s.run()
		for len(s.running) > 0 {
			s.crash()
		}
		s.storage.wait()
	})
	return s
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	s.start()
	if s.hasTwins {
		s.start()
	}
	for range 30 + s.IntN(50) {
		s.step()
		if s.IntN(3) > 0 { // otherwise the next step happens at the same time
			synctest.Wait()
			s.check()
		}
		if s.hasFailed() {
			return
		}
	}
	s.calmDown()
}

// start starts a controller.
func (s *simulation) start() {
	s.log("start")
	c := &simController{cluster: s.server.Connect("provisioner"), ended: make(chan error, 1)}
	controller, err := provision.New(provision.Config{
		Name: driver, Provisioner: s.storage, Cluster: c.cluster, Timeout: 10 * time.Minute, Calls: 1 + s.IntN(8),
		ProvisionThreshold: s.IntN(2) * 3,
		Events:             func(e api.Event) { s.log("  event %s %s", e.Reason, e.Message) },
	})
	s.must(err)
	ctx, cancel := context.WithCancel(s.ctx)
	c.cancel = cancel
	go func() { c.ended <- controller.Run(ctx) }()
	s.running = append(s.running, c)
}

// crash ends the first controller at once: none of its calls takes effect any more.
func (s *simulation) crash() {
	c := s.running[0]
	s.running = s.running[1:]
	s.log("crash")
	c.cluster.Crash()
	c.cancel()
	s.must(<-c.ended)
}

// restartCrashed starts controllers again whose process a fault has crashed.
func (s *simulation) restartCrashed() {
	for _, c := range s.running {
		select {
		case <-c.cluster.Crashed():
			s.crash()
			s.start()
		default:
		}
	}
}

// log adds a line to the trace. Lines of the controller and the storage begin with two spaces.
func (s *simulation) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = append(s.trace, time.Since(s.began).Round(time.Millisecond).String()+" "+fmt.Sprintf(format, args...))
}

func (s *simulation) fail(format string, args ...any) {
	s.log("  VIOLATION: "+format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *simulation) hasFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures) > 0
}

func (s *simulation) must(errs ...error) {
	for _, err := range errs {
		if err != nil {
			s.fail("%v", err)
		}
	}
}

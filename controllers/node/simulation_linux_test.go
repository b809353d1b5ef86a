package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/internal/testbed"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSimulation runs a source and a manager on a node with a kernel in memory, and with the API
// server in memory, in a bubble of testing/synctest. A seed determines the steps and the faults.
//
// Steps: pods come, finish, are marked as failed, and are deleted, before or after the end of their
// containers; claims are created, bound, expanded and deleted; ConfigMaps and Secrets change and are
// deleted; other programs change the status of the node; time passes; the program crashes, and starts
// again with the records of its containers. A controller attaches and detaches, see simController;
// another one expands, see expandClaim.
//
// Faults: watches are cut, delayed and held back, lists are stale, versions expire (410), calls fail
// with 401, 429, 500 and 503 or a timeout, before and after they take effect, or with an expired
// certificate; outages of hours; the program crashes before or after a write; attaches are slow or
// fail, detaches are late, the node cannot grow a volume.
//
// Forbidden states, checked after each step: a volume is unmounted, or replaced, while its pod exists
// or its containers run; the files of a running pod are lost; the source lacks such a pod; a mounted
// volume of a controller is not attached, or node.status.volumesInUse lacks it.
//
// Forbidden steps: a volume is mounted before it is attached and in use by the API server, or at a
// device of an earlier attach; a write of the node or of a claim changes nothing, removes a mounted
// volume from volumesInUse, shows a size that the volume does not have, or changes a state that
// belongs to the controller; a volume is detached while it is mounted.
//
// The name of a claim comes again only for an ephemeral volume. A new claim of the name of a removed
// one that containers still use is no part of the simulation: after a restart the manager sets up
// the new volume instead, see its guarantees.
//
// At the end faults stop. Within ten minutes each pod has its volumes with the present content, size
// and a valid token, and nothing else is mounted, in use, attached, left on disk or watched. Then no
// call follows, apart from renewals of watches and tokens. After the last pod nothing is left but the
// data of the volumes.
//
// The order of goroutines and the random part of pauses are not part of a seed: a failure may take
// several runs (-count) to appear again.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 1000-2000), which is 1,000 in make nightly;
// VOLUMEKIT_SEED is a seed to replay with its trace.
func TestSimulation(t *testing.T) {
	testbed.Simulation{
		Run: func(t *testing.T, seed uint64) (trace, failures []string) {
			s := simulate(t, seed)
			return s.trace, s.failures
		},
		Short: 50, Seeds: 200,
		// One bubble at a time: locks of package safepath are global, and a channel belongs to its bubble.
		Serial: true,
	}.Test(t)
}

// TestSimulationIsReplayed: a seed has the same steps in each run.
func TestSimulationIsReplayed(t *testing.T) {
	for seed := range uint64(3) {
		require.Equal(t, stepsOf(simulate(t, seed)), stepsOf(simulate(t, seed)))
	}
}

// stepsOf returns the lines of a trace that do not depend on the order of goroutines.
func stepsOf(s *simulation) (steps []string) {
	for _, line := range s.trace {
		if !strings.Contains(line, simIndent) {
			steps = append(steps, line)
		}
	}
	return steps
}

// simIndent begins the lines of a trace that the program writes.
const simIndent = "   "

// A simulation is a cluster with one node, as a test changes it.
type simulation struct {
	*rand.Rand
	ctx        context.Context
	cluster    api.Cluster     // of the test
	server     *apitest.Server // nil: a real API server
	connect    func() api.Cluster
	node       *simNode
	seed       uint64
	controller *simController
	nodeWrites atomic.Int64 // of the program, without an error
	faults     []func()     // ends of faults
	began      time.Time

	podNumber, claimNumber, value int
	pods                          []*simPod
	claims                        []*simClaim
	values                        map[string][]string // all values of a ConfigMap or Secret, the last one last; "": deleted

	isOfClaims bool      // selects the frequencies of steps
	replaced   *simClaim // the claim of the next pod; nil: any

	mu       sync.Mutex // guards the rest
	trace    []string
	failures []string
}

// simulate runs a seed in a bubble of its own.
func simulate(t *testing.T, seed uint64) (s *simulation) {
	dir, err := os.MkdirTemp(testbed.Memory(), "simulation")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{Seed: seed})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s = newSimulation(ctx, seed, server.Direct(), dir)
		s.server, s.connect = server, func() api.Cluster { return server.Connect("agent") }
		s.isOfClaims = seed%2 == 1
		s.run()
		if s.node.program != nil {
			s.node.crash()
		}
		for _, l := range s.node.running() {
			s.node.endContainers(l.pod.UID) // closes files
		}
	})
	return s
}

func newSimulation(ctx context.Context, seed uint64, cluster api.Cluster, dir string) *simulation {
	s := &simulation{
		Rand: rand.New(rand.NewPCG(seed, 1)), ctx: ctx, seed: seed, cluster: cluster, began: time.Now(), values: map[string][]string{},
	}
	s.node = newSimNode(s, dir)
	_, err := cluster.Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: simNamespace}}, metav1.CreateOptions{})
	s.must(err)
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: simNamespace}}
	_, err = cluster.ServiceAccounts(simNamespace).Create(ctx, account, metav1.CreateOptions{})
	s.must(err)
	_, err = cluster.StorageClasses().Create(ctx, simStorageClass(), metav1.CreateOptions{})
	s.must(err)
	managed := map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	_, err = cluster.Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: simNodeName, Annotations: managed}}, metav1.CreateOptions{})
	s.must(err)
	s.controller = newSimController(s)
	return s
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	go s.controller.run(s.ctx)
	s.node.start(s.connect())
	for range 3 {
		if s.isOfClaims {
			s.addClaim()
			s.bindClaim()
		}
	}
	steps := 20 + s.IntN(40)
	if s.isOfClaims {
		steps *= 2
	}
	for range steps {
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

// log adds a line to the trace. Lines of the program begin with two spaces.
func (s *simulation) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	if strings.HasPrefix(line, "  ") {
		line = simIndent + time.Since(s.began).Round(time.Millisecond).String() + line
	}
	s.trace = append(s.trace, line)
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

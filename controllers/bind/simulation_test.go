package bind_test

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
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSimulation runs binders with a plugin, a scheduler, an external provisioner and users with the API
// server in memory, in a bubble of testing/synctest. A seed determines the steps and the faults.
//
// Steps: volumes and claims of each class, policy and size come, also with the names of each other, and go,
// also without their protection, and come again with the name; users edit references and annotations and
// change policies; the scheduler reserves volumes and selects nodes; the external provisioner stores
// volumes late, and deletes released ones; pods come and go; time passes; the controller crashes and
// starts again; in a tenth of the seeds two controllers run.
//
// Faults: calls of the plugin fail, before and after their effect, and take long. Calls to the API server
// and watches fail in each way of package apitest, and crash the process.
//
// Forbidden states: two claims are bound to one volume, or two volumes to one claim; a claim names another
// volume than before; storage is deleted or recycled while the API server shows its claim, a user of it, or
// another phase or policy; a claim receives the files of another one.
//
// At the end faults stop. Then each claim is bound that a volume fits, and no call follows. After the last
// claim each volume is free, kept, or gone with its storage.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 1000-2000); VOLUMEKIT_SEED is a seed to
// replay with its trace. The order of goroutines is not part of a seed: a failure may take several runs
// (-count) to appear again.
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

// economize saves processor time until t ends: bubbles are short-lived garbage, and informers log each
// fault to os.Stderr by klog.
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
	plugin   *simPlugin
	plugins  *volume.VolumePluginMgr
	hasTwins bool // two controllers run, and none crashes
	running  []*simController
	faults   []func() // ends of faults
	names    map[types.UID]string
	began    time.Time
	number   int

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
	plugin := newSimPlugin(seed)
	plugins := plugin.plugins(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server := apitest.NewServer(apitest.Config{Seed: seed})
		s = &simulation{
			Rand: rand.New(rand.NewPCG(seed, 1)), ctx: ctx, server: server, cluster: server.Direct(), began: time.Now(),
			plugin: plugin, plugins: plugins, hasTwins: seed%10 == 9, names: map[types.UID]string{},
		}
		plugin.check = s.checkCall
		s.createClasses()
		s.run()
		for len(s.running) > 0 {
			s.crash()
		}
	})
	return s
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	s.start()
	if s.hasTwins {
		s.start()
	}
	for range 40 + s.IntN(60) {
		s.step()
		if s.IntN(3) > 0 { // otherwise the next step happens at the same time
			synctest.Wait()
		}
		s.check()
		if s.hasFailed() {
			return
		}
	}
	s.calmDown()
}

// start starts a controller.
func (s *simulation) start() {
	s.log("start")
	c := &simController{cluster: s.server.Connect("binder"), ended: make(chan error, 1)}
	controller, err := bind.New(bind.Config{
		Cluster: c.cluster, Plugins: s.plugins, Workers: 1 + s.IntN(8), Timeout: 10 * time.Minute,
		Events: func(e api.Event) { s.log("  event %s %s: %s", e.Reason, e.Object.(metav1.Object).GetName(), e.Message) },
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

// log adds a line to the trace. Lines of the controller and the plugin begin with two spaces.
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

func (s *simulation) claims() []v1.PersistentVolumeClaim {
	list, err := s.cluster.PersistentVolumeClaims(namespace).List(s.ctx, metav1.ListOptions{})
	s.must(err)
	return list.Items
}

func (s *simulation) volumes() []v1.PersistentVolume {
	list, err := s.cluster.PersistentVolumes().List(s.ctx, metav1.ListOptions{})
	s.must(err)
	return list.Items
}

func (s *simulation) pods() []v1.Pod {
	list, err := s.cluster.Pods(namespace).List(s.ctx, metav1.ListOptions{})
	s.must(err)
	return list.Items
}

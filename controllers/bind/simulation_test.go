package bind_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/protect"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSimulation runs binders with a plugin, a scheduler, an external provisioner and users with the API
// server in memory, in a bubble of testing/synctest. A seed determines the steps and the faults.
//
// Steps: volumes and claims of each class, policy and size come, also with the names of each other, and go,
// also without their protection, and come again with the name; users edit references, annotations, labels,
// sizes, classes and policies; the scheduler reserves volumes and selects nodes, and the external
// provisioner stores volumes, both also by an old view; the provisioner deletes released volumes; pods come
// and go; time passes; the controllers crash and start again. In a fifth of the seeds two binders run, and
// in a quarter the controllers of package protect run beside them.
//
// Faults: calls of the plugin fail, before and after their effect, and take long; a recycling goes on for
// minutes after a call with an open outcome, and after a crash. Calls to the API server and watches fail in
// each way of package apitest, also those of one binder alone, and crash the process.
//
// Forbidden states: two claims are bound to one volume, or two volumes to one claim; a claim names another
// volume than before; storage is deleted or recycled while the API server shows its claim, a user of it, or
// another phase or policy; a claim becomes bound to a volume that is being recycled; a claim receives the
// files of another one.
//
// At the end faults stop. Then each claim is bound that a volume fits, and no call follows. After the last
// claim each volume is free, kept, or gone with its storage, and no object stays in deletion.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 1000-2000); VOLUMEKIT_SEED is a seed to
// replay with its trace. The order of goroutines is not part of a seed: a failure may take several runs
// (-count) to appear again.
func TestSimulation(t *testing.T) {
	simtest.Simulate(t, simulate)
}

// A simulation is a cluster as a test changes it.
type simulation struct {
	*simtest.World
	plugin   *simPlugin
	plugins  *volume.VolumePluginMgr
	isTwin   bool // two binders run
	protects bool // the controllers of package protect run
	names    map[types.UID]string
	lateView []v1.PersistentVolumeClaim // of the scheduler and the external provisioner
	number   int
	bound    map[pair]bool                          // the pairs of the last check
	phases   map[types.UID]v1.PersistentVolumePhase // of the volumes at the last check
}

// A pair is a claim and a volume that are bound to each other.
type pair struct{ claim, volume types.UID }

// simulate runs a seed.
func simulate(w *simtest.World, seed uint64) {
	plugin := newSimPlugin(seed)
	s := &simulation{
		World: w, plugin: plugin, isTwin: seed%5 == 4, protects: seed%4 == 1,
		names: map[types.UID]string{}, bound: map[pair]bool{},
	}
	var err error
	s.plugins, err = plugin.plugins(s.Context)
	s.Must(err)
	s.All = append(s.All, simFaults...)
	s.AtEnd(plugin.end)
	plugin.check, plugin.checkEffect = s.checkCall, s.checkRecycled
	for _, name := range simClassNames {
		s.setClass(name, false)
	}
	s.run()
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	s.Start(s.binder("binder"))
	if s.isTwin {
		s.Start(s.binder("second binder"))
	}
	if s.protects {
		s.Start(s.protector())
	}
	if s.Play(40+s.IntN(60), s.step, s.check) {
		s.calmDown()
	}
}

func (s *simulation) binder(identity string) simtest.Program {
	return simtest.Program{Identity: identity, Prepare: func() simtest.Main {
		config := bind.Config{Plugins: s.plugins, Workers: 1 + s.IntN(8), Timeout: 10 * time.Minute, Events: s.logEvent}
		return func(ctx context.Context, cluster *apitest.Cluster) error {
			config.Cluster = cluster
			return simtest.Run(bind.New(config))(ctx)
		}
	}}
}

func (s *simulation) protector() simtest.Program {
	return simtest.Program{Identity: "protector", Prepare: func() simtest.Main {
		return func(ctx context.Context, cluster *apitest.Cluster) error {
			return simtest.Run(protect.New(protect.Config{Cluster: cluster, Events: s.logEvent}))(ctx)
		}
	}}
}

func (s *simulation) logEvent(e api.Event) {
	s.Log("  event %s %s: %s", e.Reason, e.Object.(metav1.Object).GetName(), e.Message)
}

// name returns one of few names.
func (s *simulation) name(kind string) string { return fmt.Sprint(kind, "-", s.IntN(6)) }

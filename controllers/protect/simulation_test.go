package protect_test

import (
	"context"
	"testing"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/protect"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSimulation runs controllers with the API server in memory, in a bubble of testing/synctest. A seed
// determines the steps and the faults.
//
// Steps: claims, volumes and pods come, with named claims and ephemeral volumes, and go, and come again
// with the name; the scheduler assigns pods to nodes, also pods whose claims are in deletion; nodes start
// the pods whose claims live, finish pods and shut them down; users delete pods by force, hold them by
// finalizers, and take finalizers of claims and volumes that live; a binder binds in single writes, and
// stops between any two of them; the garbage collector deletes claims without their owner; time passes;
// the controller crashes and starts again; in a fifth of the seeds two controllers run.
//
// Faults: calls to the API server and watches fail in each way of package apitest, and crash the process.
//
// Forbidden states: a pod that a node has started has lost a claim; a claim that was bound has lost its
// volume; a claim of a pod's ephemeral volume has another owner than the pod, and was made by a controller.
//
// At the end faults stop. Within two hours each claim and each volume that lives has its finalizer, those
// in deletion are gone unless they are used, and each pod has the claims of its ephemeral volumes. Then no
// call follows. After the last pod and the last claim no object is left.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 1000-2000); VOLUMEKIT_SEED is a
// seed to replay with its trace. The order of goroutines is not part of a seed: a failure may take
// several runs (-count) to appear again.
func TestSimulation(t *testing.T) {
	simtest.Simulate(t, simulate)
}

// A simulation is a cluster as a test changes it.
type simulation struct {
	*simtest.World
	hasTwins bool // two controllers run
	number   int

	// started are the claims of the pods that a node has started, by their UIDs.
	started map[types.UID][]types.UID
	// bound are the volumes of the claims that were bound, by their UIDs.
	bound map[types.UID]types.UID
	// reserved are the volumes that the binder has reserved for claims, by the UIDs of the claims.
	reserved map[types.UID]*v1.PersistentVolume
	// abandoned are the claims and volumes whose finalizer a user has taken.
	abandoned map[types.UID]bool
}

// simulate runs a seed.
func simulate(w *simtest.World, seed uint64) {
	s := &simulation{
		World: w, hasTwins: seed%5 == 4,
		started: map[types.UID][]types.UID{}, bound: map[types.UID]types.UID{}, abandoned: map[types.UID]bool{},
		reserved: map[types.UID]*v1.PersistentVolume{},
	}
	s.All = append(s.All, latePods)
	s.run()
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	s.Start(s.controller())
	if s.hasTwins {
		s.Start(s.controller())
	}
	if s.Play(40+s.IntN(80), s.step, s.check) {
		s.calmDown()
	}
}

func (s *simulation) controller() simtest.Program {
	return simtest.Program{Identity: identity, Prepare: func() simtest.Main {
		config := protect.Config{
			Workers: 1 + s.IntN(4), ReportUnused: s.IntN(2) == 0,
			Events: func(e api.Event) { s.Log("  event %s %s", e.Reason, e.Message) },
		}
		return func(ctx context.Context, cluster *apitest.Cluster) error {
			config.Cluster = cluster
			return simtest.Run(protect.New(config))(ctx)
		}
	}}
}

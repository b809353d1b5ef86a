package provision_test

import (
	"context"
	"testing"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/provision"
)

// TestSimulation runs controllers, a storage and a binder with the API server in memory, in a bubble of
// testing/synctest. A seed determines the steps and the faults.
//
// Steps: claims come, with classes of each policy and binding mode or without a class, and go, also
// with their finalizer of protection taken by force while a pod runs, and come again with the name;
// users change policies and delete volumes; volumes whose claim lives are released; the scheduler
// selects nodes, nodes go; pods come and go, also with ephemeral volumes, and are replaced by pods
// of their names; time passes; the storage moves to another address; the controller crashes and
// starts again; in a tenth of the seeds two controllers run, in a half of these a third one with another storage.
//
// Faults: calls of the storage fail with each kind of error, before and after their effect, hang
// until their context ends, panic, take effect minutes after they have failed, or refuse their storage. Calls to the API
// server and watches fail in each way of package apitest, and crash the process. The API server refuses
// objects for good.
//
// Forbidden states: a claim has two volumes; a claim with a source has an empty one; storage exists that no volume and no claim with the
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
	simtest.Simulate(t, simulate)
}

// A simulation is a cluster as a test changes it.
type simulation struct {
	*simtest.World
	storages []*simStorage // one for each controller, or one for all
	hasTwins bool          // two controllers run, and none crashes
	number   int
	isCalm   bool
}

// simulate runs a seed.
func simulate(w *simtest.World, seed uint64) {
	s := &simulation{World: w, hasTwins: seed%10 == 9}
	if s.hasTwins { // whose crash is excluded
		s.All = simtest.OfServer()
	}
	s.All = append(s.All, refusedObjects)
	s.storages = []*simStorage{newSimStorage(s, seed)}
	if seed%20 == 19 {
		s.storages = append(s.storages, newSimStorage(s, seed+1))
	}
	for _, storage := range s.storages {
		s.AtEnd(storage.wait)
	}
	s.createClasses()
	s.run()
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	s.Start(s.controller(s.storages[0]))
	if s.hasTwins {
		s.Start(s.controller(s.storages[0]))
	}
	for _, other := range s.storages[1:] {
		s.Start(s.controller(other))
	}
	if s.Play(30+s.IntN(50), s.step, s.check) {
		s.calmDown()
	}
}

func (s *simulation) controller(storage *simStorage) simtest.Program {
	return simtest.Program{Identity: "provisioner", Prepare: func() simtest.Main {
		config := provision.Config{
			Name: driver, Provisioner: storage, Timeout: 10 * time.Minute, Calls: 1 + s.IntN(8), ProvisionThreshold: s.IntN(2) * 3,
			Events: func(e api.Event) { s.Log("  event %s %s", e.Reason, e.Message) },
		}
		return func(ctx context.Context, cluster *apitest.Cluster) error {
			config.Cluster = cluster
			return simtest.Run(provision.New(config))(ctx)
		}
	}}
}

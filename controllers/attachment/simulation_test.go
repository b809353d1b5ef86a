package attachment_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
)

// TestSimulation runs controllers with the API server in memory and a simulated storage, in a bubble of
// testing/synctest. A seed determines the steps and the faults.
//
// Steps: an attach/detach controller creates and deletes VolumeAttachments, sometimes two for a volume and a
// node; users delete volumes, make others of their names, and change them; nodes leave and come back, with the
// same ID or another one; the storage fails with each kind of error, before, after and long after the effect,
// and in half of the seeds loses attached volumes, which its list shows; time passes; the controller crashes
// and starts again; in a fifth of the seeds two controllers run.
//
// Faults: calls to the API server and watches fail in each way of package apitest, and crash the process.
//
// Forbidden states: a VolumeAttachment that is attached by its status, and not at the storage that has not
// lost it; a finalizer of a volume that goes before its last attachment at the storage. Forbidden calls: an
// Attach without the finalizers and the record of its target, or before the volume has passed its check; a
// Detach of a volume that a VolumeAttachment promises; another volume while the outcome of an Attach is
// unknown; two for a volume and a node at the same time. The rules hold for one controller.
//
// At the end faults stop. Within an hour each VolumeAttachment with a volume and a node is attached, and the
// storage of one controller has no other volume attached. Then all objects are deleted, and the storage of one
// controller has no volume attached, and the API server no object. Then no call follows.
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
	hasTwins bool         // two controllers run
	hasList  bool         // the storage lists attached volumes, and loses some
	handles  int          // of all volumes so far
	starts   atomic.Int64 // of controllers so far
}

// simulate runs a seed.
func simulate(w *simtest.World, seed uint64) {
	s := &simulation{World: w, hasTwins: seed%5 == 4, hasList: seed%2 == 0 || seed%5 == 4}
	s.storage = newSimStorage(s, seed)
	s.run()
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	for i := range volumes {
		s.createVolume(i)
	}
	for i := range nodes {
		s.createNode(i)
	}
	s.Start(s.controller())
	if s.hasTwins {
		s.Start(s.controller())
	}
	if s.Play(60+s.IntN(80), s.step, s.check) {
		s.calmDown()
	}
}

func (s *simulation) controller() simtest.Program {
	return simtest.Program{Identity: identity, Prepare: func() simtest.Main {
		s.starts.Add(1)
		config := attachment.Config{
			Attacher: s.storage, Workers: 1 + s.IntN(4), Timeout: time.Duration(s.IntN(2)) * 30 * time.Second,
			Events: func(e api.Event) { s.Log("  event %s %s", e.Reason, e.Message) },
		}
		if s.hasList {
			config.Attacher = simLister{s.storage}
		}
		return func(ctx context.Context, cluster *apitest.Cluster) error {
			config.Cluster = cluster
			return simtest.Run(attachment.New(config))(ctx)
		}
	}}
}

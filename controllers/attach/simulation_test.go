package attach_test

import (
	"context"
	"testing"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attach"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"k8s.io/apimachinery/pkg/types"
)

// TestSimulation runs controllers with the API server in memory, simulated nodes, a CSI driver and a plugin,
// in a bubble of testing/synctest. A seed determines the steps and the faults.
//
// Steps: pods come, end, go, and move between nodes; nodes report and mount, lose their connection, die,
// come back, lie about the volumes in use and the attached ones, and are deleted and created again; administrators declare nodes out
// of service; volumes are deleted and created again; the driver and the plugin fail with each kind of error,
// before, after and long after the effect, and report another node that has the volume; time passes; the
// controller crashes and starts again; in a fifth of the seeds two controllers run.
//
// Faults: calls to the API server and watches fail in each way of package apitest, and crash the process.
//
// Forbidden states: a volume for one node on two. Forbidden calls, for one controller: a detach from a node
// that has the volume mounted, is alive by the rules of the cluster, and has not lied.
//
// At the end faults stop. Within hours each volume is attached to the nodes of its pods and to no others, the
// nodes report the same, and no VolumeAttachment is left over. Then no call follows.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 1000-2000); VOLUMEKIT_SEED is a
// seed to replay with its trace. The order of goroutines is not part of a seed: a failure may take
// several runs (-count) to appear again.
func TestSimulation(t *testing.T) {
	simtest.Simulate(t, simulate)
}

// A simulation is a cluster with nodes and a storage as a test changes them.
type simulation struct {
	*simtest.World
	storage  *simStorage
	driver   *csiDriver
	nodes    []*simNode
	disks    []diskSpec
	hasTwins bool // two controllers run
	pods     int  // the number of pods so far
	// deleted are the VolumeAttachments whose deletion has been checked.
	deleted map[types.UID]bool
}

// simulate runs a seed.
func simulate(w *simtest.World, seed uint64) {
	s := &simulation{
		World: w, hasTwins: seed%5 == 4, deleted: map[types.UID]bool{},
		disks: []diskSpec{{name: "single"}, {name: "shared", isShared: true}, {name: "plugged", isPlugin: true}, {name: "plugshared", isPlugin: true, isShared: true}},
	}
	s.storage = newSimStorage(s, seed)
	s.AtEnd(s.storage.stop)
	s.driver = &csiDriver{cluster: s.Cluster, attach: s.storage.attachCSI, detach: s.storage.detachCSI}
	s.run()
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	s.createAll()
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
		config := attach.Config{
			Workers: 1 + s.IntN(4), Timeout: time.Duration(1+s.IntN(4)) * 30 * time.Second,
			Events: func(e api.Event) { s.Log("  event %s %s", e.Reason, e.Message) },
		}
		return func(ctx context.Context, cluster *apitest.Cluster) (err error) {
			config.Cluster = cluster
			if config.Plugins, err = s.storage.plugin(ctx).manager(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			return simtest.Run(attach.New(config))(ctx)
		}
	}}
}

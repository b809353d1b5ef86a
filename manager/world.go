package manager

import (
	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/mountcheck"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/record"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A world is the desired and the actual state, and the state of the reconciler. Manager.mu guards
// it. Its methods neither block nor call plugins.
type world struct {
	snapshot
	// adoptable are directories whose volume is renamed after its in-flight operation.
	adoptable   map[naming.PodDir]bool
	waitReasons map[failureKey]error  // last reported reason why a pod waits
	eventTexts  map[failureKey]string // last reported failure of a shared step, by pod

	tracker inUseTracker

	dirty       map[v1.UniqueVolumeName]bool // volumes to plan
	planned     int                          // number of plans made
	mountQueue  mountcheck.Queue             // mounts to check
	tableEvents int                          // mount events during in-flight operations

	woken    []types.UID // pods whose waiters unlock wakes
	allWoken bool        // unlock wakes all waiters
}

// A snapshot is the part of the world that lookups read. A copy is immutable: its maps are
// persistent or replaced as a whole.
type snapshot struct {
	schedule  planning.Schedule
	isRunning bool
	want      desired.Population
	have      actual.World
	restored  bool // have contains the volumes of the earlier run
	leftovers []Leftover
	// brokenRecords are the record files that are unreadable or invalid; their volumes may
	// exist.
	brokenRecords persistent.Map[string, record.Broken]
	failures      persistent.Map[failureKey, error]
}

// newWorld returns a world without volumes, with its maps allocated.
func newWorld() world {
	return world{
		adoptable:   map[naming.PodDir]bool{},
		waitReasons: map[failureKey]error{},
		eventTexts:  map[failureKey]string{},
		tracker:     inUseTracker{names: map[v1.UniqueVolumeName]bool{}},
		dirty:       map[v1.UniqueVolumeName]bool{},
	}
}

// markAllDirty queues all volumes for planning. The caller holds mu.
func (w *world) markAllDirty() {
	for name := range w.have.Volumes.Keys() {
		w.dirty[name] = true
	}
	for name := range w.want.Volumes.Keys() {
		w.dirty[name] = true
	}
}

// notifyWaiters makes unlock wake the waiters of these pods and those of all pods. The
// caller holds mu.
func (w *world) notifyWaiters(pods ...types.UID) { w.woken = append(w.woken, pods...) }

// notifyAllWaiters makes unlock wake all waiters. The caller holds mu.
func (w *world) notifyAllWaiters() { w.allWoken = true }

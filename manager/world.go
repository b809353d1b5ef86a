package manager

import (
	"slices"

	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/mountcheck"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/manager/internal/populate"
	"github.com/volumekit/volumekit/manager/internal/record"
	"github.com/volumekit/volumekit/util/podvolume"
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

// existingVolumes returns the volumes that are, or may be, up in the pod.
func (s *snapshot) existingVolumes(pod types.UID) (all []populate.Existing) {
	for _, e := range s.have.Dirs.Of(pod) {
		have := s.have.Volumes.Get(e.Volume)
		all = append(all, populate.Existing{Dir: e.Name, Plugin: have.Plugin, Name: have.Name, Spec: have.Spec})
	}
	return all
}

// isResultStale reports whether a volume has come up during a population that moves the claim
// of a changed pod to another volume: the next population keeps the existing volume. The caller
// holds mu.
func (w *world) isResultStale(want desired.Population, changed []types.UID) bool {
	for _, uid := range changed {
		for _, to := range want.Demands.Get(uid).VolumesOrNone() {
			from, ok := w.want.PlaceNamed(naming.PodVolume{Pod: uid, Name: to.Pod.OuterName})
			if ok && from != to.Place && w.replacesExisting(want.Pod(uid), to.Pod.OuterName, from, to.Volume) {
				return true
			}
		}
	}
	return false
}

// replacesExisting reports whether the desired volume of a claim differs from the volume that
// is, or may be, up for the claim. The caller holds mu.
func (w *world) replacesExisting(pod *v1.Pod, outer string, from naming.Place, want *desired.Volume) bool {
	have := w.have.Volumes.Get(from.Volume)
	if have == nil || have.StateOf(from.Key) == actual.Absent || have.Storage() == (naming.Storage{Plugin: want.Plugin, Name: want.Name}) && podvolume.ViewedName(from.Key.Name) == want.Spec.Name() {
		return false
	}
	i := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == outer })
	claim, _ := podspec.ClaimOf(pod, &pod.Spec.Volumes[i])
	return claim != "" && podspec.HasSameClaim(pod, &pod.Spec.Volumes[i], w.want.Pod(pod.UID))
}

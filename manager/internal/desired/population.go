package desired

import (
	"iter"
	"maps"
	"slices"

	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/reading"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Population is the desired state of the world, and the unresolved volumes, computed from
// the demands of the pods, with indexes.
//
// A copy is an immutable version: replacing the demand of a pod costs the same for any number
// of pods.
type Population struct {
	World
	Demands persistent.Map[types.UID, *Demand]         // of running pods
	Failing naming.UIDSet                              // pods with unresolved volumes
	Users   persistent.Map[reading.Ref, naming.UIDSet] // pods whose demands depend on an object
	// OnePod maps the storage of a volume for one pod at a time to its unique name.
	OnePod persistent.Map[naming.Storage, v1.UniqueVolumeName]
	// ByDevicePath maps a device mount path to the volumes to be mounted there.
	ByDevicePath naming.NameMap[string]
	Remounts     int // number of demanded volumes that are set up again periodically
}

// A Delta is the difference of two populations: the pods with other demands and the volumes
// with another desired state, both sorted.
type Delta struct {
	Pods    []types.UID
	Volumes []v1.UniqueVolumeName
}

// Pod returns a pod with a demand, or nil.
func (p *Population) Pod(uid types.UID) *v1.Pod {
	if d := p.Demands.Get(uid); d != nil {
		return d.Pod
	}
	return nil
}

// PlaceNamed returns the place of a volume by its name in the pod.
func (p *Population) PlaceNamed(v naming.PodVolume) (naming.Place, bool) {
	w, ok := p.Demands.Get(v.Pod).VolumeNamed(v.Name)
	return w.Place, ok
}

// VolumeIn returns the volume that is desired in a directory; empty: none.
func (p *Population) VolumeIn(dir naming.PodDir) v1.UniqueVolumeName {
	w, _ := p.Demands.Get(dir.Pod).VolumeIn(dir)
	return w.Place.Volume
}

// FailureOf returns why a volume is unresolved, or nil.
func (p *Population) FailureOf(v naming.PodVolume) error {
	return p.Demands.Get(v.Pod).FailureOf(v.Name)
}

// AllFailed returns the unresolved volumes, in no order.
func (p *Population) AllFailed() iter.Seq2[naming.PodVolume, FailedVolume] {
	return func(yield func(naming.PodVolume, FailedVolume) bool) {
		for uid := range p.Failing.Keys() {
			for _, f := range p.Demands.Get(uid).Failed {
				if !yield(naming.PodVolume{Pod: uid, Name: f.Name}, f) {
					return
				}
			}
		}
	}
}

// With returns the population with other demands for some pods, where nil removes a pod, and
// the difference to this population.
func (p Population) With(changed map[types.UID]*Demand) (next Population, d Delta) {
	next = p
	rebuilt := map[v1.UniqueVolumeName][]types.UID{} // with the pods whose demand of the volume differs
	for _, uid := range slices.Sorted(maps.Keys(changed)) {
		before, now := p.Demands.Get(uid), changed[uid]
		if now.IsSame(before) {
			continue
		}
		d.Pods = append(d.Pods, uid)
		next.replaceDemand(uid, before, now)
		for _, w := range before.VolumesOrNone() {
			if !slices.Contains(now.VolumesOrNone(), w) {
				rebuilt[w.Place.Volume] = append(rebuilt[w.Place.Volume], uid)
			}
		}
		for _, w := range now.VolumesOrNone() {
			if !slices.Contains(before.VolumesOrNone(), w) {
				rebuilt[w.Place.Volume] = append(rebuilt[w.Place.Volume], uid)
			}
		}
	}
	d.Volumes = slices.Sorted(maps.Keys(rebuilt))
	for _, name := range d.Volumes {
		next.rebuildVolume(name, rebuilt[name])
	}
	return next, d
}

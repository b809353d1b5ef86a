package desired

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rebuildVolume computes a volume anew from the demands of its pods and of more pods.
func (p *Population) rebuildVolume(name v1.UniqueVolumeName, more []types.UID) {
	before := p.Volumes.Get(name)
	pods := slices.Clone(more)
	for key := range before.PodsOrNone().All() {
		pods = append(pods, key.Pod)
	}
	slices.Sort(pods)
	var next join
	for _, uid := range slices.Compact(pods) {
		for _, w := range p.Demands.Get(uid).VolumesOrNone() {
			if w.Place.Volume == name {
				next.add(w)
			}
		}
	}
	p.replaceVolume(name, before, next)
}

// A join merges the demands of several pods for one volume.
type join struct {
	volume *Volume // nil: no pod needs it
	isOwn  bool    // a private copy, which may be changed
	onePod bool
}

// add adds the demand of one more pod; the first pod's volume is the base. Two names of a pod
// for one volume become one entry, which is read-only if both are.
func (j *join) add(w DemandedVolume) {
	j.onePod = j.onePod || w.Volume.Traits.OnePod
	switch {
	case j.volume == nil:
		j.volume = w.Volume
		return
	case !j.isOwn:
		own := *j.volume
		own.Pods = slices.Clone(own.Pods)
		j.volume, j.isOwn = &own, true
	}
	v, pod := j.volume, w.Pod
	if v.Size == nil && w.Volume.Size != nil { // the pods before only read it
		v.Size, v.ClaimSize, v.Spec = w.Volume.Size, w.Volume.ClaimSize, w.Volume.Spec
	}
	if other := v.Pods.Get(w.Key); other != nil {
		both := *pod
		both.Args.ReadOnly = both.Args.ReadOnly && other.Args.ReadOnly
		pod = &both
	}
	v.Pods.Set(w.Key, pod)
}

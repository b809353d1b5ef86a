package planning

import (
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
)

// planSetUp returns the next operation that sets the volume up for a pod that needs it.
func (p *Planner) planSetUp() (operation.Operation, bool) {
	if p.IsRecreated() {
		return operation.Operation{}, false
	}
	for key := range p.Want.Pods.All() {
		if !p.needsSetUp(key) || p.mustWait(key) || p.mustWaitForReaders(key) {
			continue
		}
		if op, ok := p.planPodStep(key); ok {
			return op, true
		}
	}
	return operation.Operation{}, false
}

// planPodStep returns the next step of setting the volume up for a pod.
func (p *Planner) planPodStep(key naming.PodKey) (operation.Operation, bool) {
	if _, ok := p.sharedStep(key); ok {
		return p.planSharedStep(key)
	}
	return p.ifDue(operation.SetUp, key)
}

// needsSetUp reports whether the volume is not up in the pod, or not in the current revision.
func (p *Planner) needsSetUp(key naming.PodKey) bool {
	pod := p.Have.Pods.Get(key)
	return pod == nil || pod.State != actual.Present || pod.Revision != p.Revisions.Get(key)
}

// mustWait reports whether another volume is in the pod's directory, or another pod holds a
// volume of ReadWriteOncePod. Of two pods that may hold it the first one proceeds.
func (p *Planner) mustWait(key naming.PodKey) bool {
	return p.IsDirOccupied(key) || p.isHeldByOtherPod(key)
}

// IsDirOccupied reports whether another volume is, or may be, in the pod's directory.
func (p *Planner) IsDirOccupied(key naming.PodKey) bool {
	other := p.dirs.Get(naming.PodDir{Pod: key.Pod, Plugin: p.Want.Plugin, Name: key.Name})
	return other != "" && other != p.name
}

// isHeldByOtherPod reports whether another pod has, or may have, a volume for one pod at a time, and
// precedes this pod.
func (p *Planner) isHeldByOtherPod(key naming.PodKey) bool {
	if !p.Want.Traits.OnePod {
		return false
	}
	own := p.Have.StateOf(key)
	for other, pod := range p.Have.Pods.All() {
		held := pod.State
		if other.Pod != key.Pod && (held > own || held == actual.Uncertain && other.Compare(key) < 0) {
			return true
		}
	}
	return p.mayBeUpElsewhere(key)
}

// mayBeUpElsewhere reports whether the storage may be up under another unique name, as
// reconstructed after a restart, or as an unrecognized volume in another pod.
func (p *Planner) mayBeUpElsewhere(key naming.PodKey) bool {
	if p.mayBeInOtherPod(key) {
		return true
	}
	for _, name := range p.storage.Get(naming.Storage{Plugin: p.Want.Plugin, Name: p.Want.Name}) {
		if name != p.name {
			return true
		}
	}
	return false
}

// IsRecreated reports whether the existing volume was deleted and another one created under
// its name. The existing volume is taken down before the new one is set up.
func (p *Planner) IsRecreated() bool {
	want, have := p.Want.Spec, p.Have.Spec
	if want == nil || have == nil || p.Have.IsAbsent() {
		return false
	}
	if want.IsBlock() != have.IsBlock() {
		return true
	}
	return want.PersistentVolume != nil && have.PersistentVolume != nil && want.PersistentVolume.UID != "" &&
		have.PersistentVolume.UID != "" && want.PersistentVolume.UID != have.PersistentVolume.UID
}

package planning

import (
	"slices"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"k8s.io/apimachinery/pkg/types"
)

// planTearDown tears the volume down in pods that no longer need it, before other pods get
// the volume.
func (p *Planner) planTearDown() (operation.Operation, bool) {
	if !p.mayTakeDown {
		return operation.Operation{}, false
	}
	for key, pod := range p.Have.Pods.All() {
		if p.Want.Pods.Get(key) != nil || pod.State == actual.Absent || p.isKept(key.Pod) || p.isInFlight(key.Pod) {
			continue
		}
		if op, ok := p.ifDue(operation.TearDown, key); ok {
			return op, true
		}
	}
	return operation.Operation{}, false
}

// isKept reports whether the pod has unresolved volumes, so that its existing volumes stay.
func (p *Planner) isKept(pod types.UID) bool {
	_, kept := p.keep.Find(pod)
	return kept
}

// isBeingTornDown reports whether all in-flight operations of the volume are tear-downs, so
// that tear-downs of other pods may start. Attachment and device mount stay until the last
// tear-down ends. A volume without either allows one tear-down at a time, because the last
// one removes the record.
func (p *Planner) isBeingTornDown() bool {
	for _, f := range p.Of(p.name) {
		if f.Verb != operation.TearDown {
			return false
		}
	}
	return p.Have.Attached != actual.Absent || p.Have.Device != actual.Absent
}

// isInFlight reports whether an operation for the pod is in flight.
func (p *Planner) isInFlight(pod types.UID) bool {
	return slices.ContainsFunc(p.Of(p.name), func(f *operation.Flight) bool { return f.Pod.Pod == pod })
}

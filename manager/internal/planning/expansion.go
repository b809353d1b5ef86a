package planning

import (
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
)

// UserToGrow returns a pod in which the volume is set up and that may write to it, preferring
// a pod whose containers write: a read-only mount cannot be grown. Without such a pod both
// are nil.
func UserToGrow(v *actual.Volume, want *desired.Volume) (have *actual.Pod, user *desired.Pod) {
	for key, pod := range v.Pods.All() {
		if pod.State != actual.Present || !want.IsWriter(key) {
			continue
		}
		writer := want.Pods.Get(key)
		if !writer.Args.ReadOnly {
			return pod, writer
		}
		if have == nil {
			have, user = pod, writer
		}
	}
	return have, user
}

// NeedsExpansion reports whether the requested size exceeds the known size. A volume of
// unknown size needs none: it has the size that was requested at set-up.
func NeedsExpansion(v *actual.Volume, want *desired.Volume) bool {
	known := v.KnownSize(want.ClaimSize)
	return want.Size != nil && known != nil && known.Cmp(*want.Size) < 0
}

// planExpansion grows a volume that is up in a pod that writes.
func (p *Planner) planExpansion() (operation.Operation, bool) {
	if !NeedsExpansion(p.Have, p.Want) || !p.isUpForWriter() || p.IsRecreated() || p.Have.DeviceReadOnly {
		return operation.Operation{}, false
	}
	return p.ifDue(operation.Expand, naming.PodKey{})
}

// isUpForWriter reports whether the volume is up in a pod that writes.
func (p *Planner) isUpForWriter() bool {
	for key := range p.Want.Pods.All() {
		if p.Want.IsWriter(key) && p.Have.StateOf(key) == actual.Present {
			return true
		}
	}
	return false
}

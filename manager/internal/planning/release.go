package planning

import (
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
)

// planRelease returns the next operation that unmounts or detaches a volume that no pod needs
// or has, unless the pod for which the volume was attached is unresolved. It also unmounts a
// read-only device mount without readers, so that a writer can mount the volume.
func (p *Planner) planRelease() (operation.Operation, bool) {
	switch {
	case !p.MayRelease():
		return operation.Operation{}, false
	case p.Have.Device != actual.Absent:
		return p.ifDue(operation.UnmountDevice, naming.PodKey{})
	case p.Have.Attached != actual.Absent:
		return p.ifDue(operation.Detach, naming.PodKey{})
	}
	return operation.Operation{}, false
}

// MayRelease reports whether the device mount and the attachment are certainly unused and may be
// removed.
func (p *Planner) MayRelease() bool {
	switch {
	case p.isKept(p.Have.LastPod.Pod) && !p.IsRecreated():
		return false
	case !p.mayTakeDown || len(p.Want.Pods) > 0 && !p.IsRecreated() && !p.isForReaders() || p.Have.IsInUse(naming.PodKey{}) || p.mayBeUnrecognized():
		return false
	}
	return true
}

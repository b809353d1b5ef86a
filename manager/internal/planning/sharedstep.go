package planning

import (
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	v1 "k8s.io/api/core/v1"
)

// sharedStep returns the shared step that the volume needs before a set-up for the pod.
func (p *Planner) sharedStep(key naming.PodKey) (operation.Verb, bool) {
	switch {
	case p.Want.Traits.Attachable && p.Have.Attached != actual.Present:
		return operation.Attach, true
	case p.Want.Traits.OnDevice() && p.Have.Device != actual.Present:
		return operation.MountDevice, true
	case p.Have.DeviceReadOnly && !p.Have.DeviceStaysReadOnly && p.Want.IsWriter(key):
		return operation.MountDevice, true // the plugin may be able to remount it
	}
	return 0, false
}

// isForReaders reports whether the device mount is read-only and a writer needs the volume.
func (p *Planner) isForReaders() bool {
	return p.Have.Device == actual.Present && p.Have.DeviceReadOnly && p.Want.HasWriter()
}

// mustWaitForReaders reports whether the pod writes and has to wait for the readers to go.
func (p *Planner) mustWaitForReaders(key naming.PodKey) bool {
	return p.isForReaders() && p.Have.DeviceStaysReadOnly && p.Want.IsWriter(key)
}

// planRepair repeats the shared steps of a volume that is up, if one is not in order.
func (p *Planner) planRepair() (operation.Operation, bool) { return p.planSharedStep(naming.PodKey{}) }

// planSharedStep returns the next shared step for a pod or, without one, for pods in which
// the volume is up.
func (p *Planner) planSharedStep(key naming.PodKey) (operation.Operation, bool) {
	v, ok := p.sharedStep(key)
	if !ok || len(p.Want.Pods) == 0 || p.IsRecreated() || v == operation.Attach && p.isUnreported() || v == operation.MountDevice && p.PlaceOccupant() != "" {
		return operation.Operation{}, false
	}
	return p.ifDue(v, naming.PodKey{})
}

// PlaceOccupant returns the other volume that is, or may be, mounted at this volume's device
// mount path; empty: none.
func (p *Planner) PlaceOccupant() v1.UniqueVolumeName {
	if p.Have.Device != actual.Absent {
		return "" // the volume has the path itself
	}
	for _, other := range p.places.Get(p.Want.DeviceMountPath) {
		if other != p.name {
			return other
		}
	}
	return ""
}

// isUnreported reports whether the volume must be reported as in use before its attach.
func (p *Planner) isUnreported() bool { return p.Reported != nil && !p.Reported[p.name] }

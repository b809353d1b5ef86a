package expand

import (
	"github.com/volumekit/volumekit/controllers/internal/claimstatus"
	"github.com/volumekit/volumekit/util/quantity"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A step is the next step of the controller for a claim.
type step int

const (
	stepNone   step = iota
	stepClear       // remove CapacityBeforeAnnotation of the volume
	stepMark        // write the size and the state inProgress to the claim
	stepRepeat      // call the Expander again for the size that the claim has
)

// A view has all that a decision depends on.
type view struct {
	claim  *v1.PersistentVolumeClaim // nil: gone
	volume *v1.PersistentVolume      // the one that the claim names; nil: none
	// isSettled: the last call for the size in the claim has ended without an effect.
	isSettled bool
}

// claimSizes are the sizes of a claim and its volume.
type claimSizes struct {
	request, status resource.Quantity
	volume          resource.Quantity
	allocated       resource.Quantity // of the last expansion that began; status if none has
}

// decide returns the next step for a claim, and the size of the expansion for stepMark and stepRepeat.
// The state is status.allocatedResourceStatuses[storage]:
//
//	           mark                           storage grown, the node has to finish
//	(none) --------------> ControllerResizeInProgress ------> NodeResizePending, NodeResizeInProgress
//	 ^ ^                     |  ^     |          ^                         |            |
//	 | |    storage grown    |  |     |infeasible| mark                    |            | the node
//	 | '---------------------'  |     v          |                         v            | gives up
//	 |                     mark |  ControllerResizeInfeasible              |            v
//	 |                          '-------------------------------------------- NodeResizeInfeasible
//	 |           file system grown (package node)                          |
//	 '---------------------------------------------------------------------'
//
// An expansion whose outcome is open goes on with its size, also if the claim requests another one. After
// a failure without an effect the size is that of the request, which the user may have reduced. The size
// is never below that of the volume. A refused size is marked again before it is tried again, as its
// outcome may be open then.
func decide(v view) (step, resource.Quantity) {
	s, ok := sizesOf(v)
	if !ok {
		return stepNone, resource.Quantity{}
	}
	if _, isMarked := v.volume.Annotations[CapacityBeforeAnnotation]; isMarked && s.status.Cmp(s.volume) >= 0 {
		return stepClear, resource.Quantity{}
	}
	state := v.claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	if s.request.Cmp(s.status) <= 0 && !isOpen(state, v.isSettled) {
		return stepNone, resource.Quantity{}
	}
	isAllocated := s.allocated.Cmp(s.status) > 0
	size := larger(s.request, s.volume)
	switch state {
	case nodePending, nodeInProgress:
		// The node finishes the size that it has begun with.
		if !isAllocated || s.volume.Cmp(s.allocated) >= 0 {
			return stepNone, resource.Quantity{}
		}
		size = s.allocated
	case inProgress:
		if isAllocated && !v.isSettled {
			size = s.allocated
		}
	}
	if isAllocated && s.allocated.Cmp(size) == 0 && state == inProgress {
		return stepRepeat, size
	}
	return stepMark, size
}

// isOpen reports whether an expansion in this state may have an effect that no object shows.
func isOpen(state v1.ClaimResourceStatus, isSettled bool) bool {
	return state == inProgress && !isSettled
}

// sizesOf returns the sizes of a claim and its volume. ok is false unless the two are bound to each
// other and have valid sizes.
func sizesOf(v view) (s claimSizes, ok bool) {
	if v.claim == nil || v.volume == nil || !claimstatus.IsBound(v.claim, v.volume) {
		return s, false
	}
	status := v.claim.Status
	s.request, s.status = v.claim.Spec.Resources.Requests[v1.ResourceStorage], status.Capacity[v1.ResourceStorage]
	s.volume = v.volume.Spec.Capacity[v1.ResourceStorage]
	if s.allocated, ok = status.AllocatedResources[v1.ResourceStorage]; !ok {
		s.allocated = s.status
	}
	for _, size := range []*resource.Quantity{&s.request, &s.status, &s.volume, &s.allocated} {
		if quantity.Check(size) != nil || size.Sign() <= 0 {
			return s, false
		}
	}
	return s, true
}

func larger(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

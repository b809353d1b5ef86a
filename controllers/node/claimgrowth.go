package node

import (
	"errors"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/claimstatus"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A growth is the result of the attempts of this node to grow the volume of a claim.
type growth struct {
	claim  types.UID
	volume string // the name of the persistent volume
	// size is the largest size that an attempt has given to the volume. Nil: none has succeeded.
	size *resource.Quantity
	// failure is the error of the last attempt, for the size tried. Nil: the attempt has
	// succeeded, or the failure is in the status of the claim.
	failure error
	tried   resource.Quantity
}

// growthOf returns the growth that an expansion reports, and the key of its claim. ok is false for
// an expansion without a bound claim or with an invalid size. The size is at most the capacity of
// the volume when the attempt began: no attempt of a node makes the storage larger.
func growthOf(e manager.Expansion) (key api.Key, g growth, ok bool) {
	if e.Spec == nil || e.Spec.PersistentVolume == nil || quantity.Check(&e.NewSize) != nil {
		return key, g, false
	}
	pv := e.Spec.PersistentVolume
	ref, capacity := pv.Spec.ClaimRef, pv.Spec.Capacity[v1.ResourceStorage]
	if ref == nil || ref.UID == "" || quantity.Check(&capacity) != nil {
		return key, g, false
	}
	g = growth{claim: ref.UID, volume: pv.Name, tried: e.NewSize, failure: e.Err}
	if e.Err == nil {
		size := e.NewSize
		if capacity.Cmp(size) < 0 {
			size = capacity
		}
		g.size = &size
	}
	return api.Key{Namespace: ref.Namespace, Name: ref.Name}, g, true
}

// after returns the growth after an earlier one.
func (g growth) after(before growth) growth {
	if g.isOfSame(before) && before.size != nil && (g.size == nil || g.size.Cmp(*before.size) < 0) {
		g.size = before.size
	}
	return g
}

func (g growth) isOfSame(other growth) bool {
	return g.claim == other.claim && g.volume == other.volume
}

// isOf reports whether the claim is the one that the volume was bound to, and not a later one of
// the same name.
func (g growth) isOf(claim *v1.PersistentVolumeClaim) bool {
	return claim != nil && claim.UID == g.claim && claim.Spec.VolumeName == g.volume
}

// decideStatus returns the change of a claim's status that follows from a growth. The state is
// status.allocatedResourceStatuses[storage]:
//
//	NodeResizePending ──attempt fails──▶ NodeResizeInProgress ──infeasible──▶ NodeResizeInfeasible
//	        │                                    │                                     │
//	        └───── the volume has the size in status.allocatedResources ───────────────┘
//	                                             ▼
//	                                           (none)
//
// The capacity becomes the size of the growth, and never smaller. A failure that is final, and not
// infeasible, makes the expansion infeasible if the request is no longer the size that was tried, so
// that the controller can try the new one. In the states of the controller, and in unknown ones,
// nothing changes. Without a state no controller waits for this node, and a failure changes nothing.
func decideStatus(claim *v1.PersistentVolumeClaim, g growth, now metav1.Time) (c claimstatus.Change) {
	state := claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	sizes, ok := sizesOf(claim)
	if !g.isOf(claim) || !ok || state != "" && !isNodeState(state) {
		return claimstatus.Change{}
	}
	if g.size != nil && sizes.capacity.Cmp(*g.size) < 0 {
		c.Capacity = g.size
	}
	switch {
	case g.finishes(state, sizes):
		if state != "" {
			c.State = new(v1.ClaimResourceStatus)
		}
		if state != "" || c.Capacity != nil {
			c.Remove = claimstatus.Present(claim, claimstatus.ResizeConditions)
		}
	case isNodeState(state) && g.failure != nil && sizes.goal.Cmp(g.tried) <= 0:
		addFailure(&c, claim, g, sizes, now)
	}
	return c
}

// claimSizes are the sizes in a claim.
type claimSizes struct {
	capacity, request resource.Quantity
	goal              resource.Quantity // of the expansion that the controller has allocated
}

// sizesOf returns the sizes in a claim. ok is false if one is invalid.
func sizesOf(claim *v1.PersistentVolumeClaim) (s claimSizes, ok bool) {
	s.capacity, s.request = claim.Status.Capacity[v1.ResourceStorage], claim.Spec.Resources.Requests[v1.ResourceStorage]
	if s.goal, ok = claim.Status.AllocatedResources[v1.ResourceStorage]; !ok {
		s.goal = s.request
	}
	for _, size := range []*resource.Quantity{&s.capacity, &s.request, &s.goal} {
		if quantity.Check(size) != nil {
			return s, false
		}
	}
	return s, true
}

func isNodeState(state v1.ClaimResourceStatus) bool {
	return state == v1.PersistentVolumeClaimNodeResizePending || state == v1.PersistentVolumeClaimNodeResizeInProgress ||
		state == v1.PersistentVolumeClaimNodeResizeInfeasible
}

// finishes reports whether the growth is the end of the expansion of the claim.
func (g growth) finishes(state v1.ClaimResourceStatus, sizes claimSizes) bool {
	if g.size == nil {
		return false
	}
	if state == "" {
		return sizes.request.Cmp(*g.size) <= 0
	}
	return sizes.goal.Cmp(*g.size) <= 0
}

// addFailure adds the state and the condition that follow from a failed attempt to a change.
func addFailure(c *claimstatus.Change, claim *v1.PersistentVolumeClaim, g growth, sizes claimSizes, now metav1.Time) {
	if errors.Is(g.failure, volume.ErrNotSupported) {
		return
	}
	isFinal := volume.KindOf(g.failure) == volume.Final
	state := v1.PersistentVolumeClaimNodeResizeInProgress
	before := claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	switch {
	case isFinal && (errors.Is(g.failure, volume.ErrInfeasible) || sizes.request.Cmp(g.tried) != 0):
		state = v1.PersistentVolumeClaimNodeResizeInfeasible
	case before == v1.PersistentVolumeClaimNodeResizeInfeasible:
		state = before
	}
	if state != before {
		c.State = &state
	}
	isStuck := isFinal || errors.Is(g.failure, volume.ErrFailedPrecondition)
	if isStuck && !claimstatus.Has(claim, v1.PersistentVolumeClaimNodeResizeError) {
		c.Set = append(c.Set, v1.PersistentVolumeClaimCondition{
			Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue,
			LastTransitionTime: now, Message: messageOf(g.failure),
		})
	}
}

// messageOf returns the text of an error in one line of limited length.
func messageOf(err error) string {
	return telemetry.Text("failed to expand the volume on its node: " + err.Error())
}

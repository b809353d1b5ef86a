package modify

import (
	"github.com/volumekit/volumekit/controllers/internal/claimstatus"
	v1 "k8s.io/api/core/v1"
)

// A step is the next step of the controller for a claim.
type step int

const (
	stepNone  step = iota
	stepClear      // remove the state of a change that was given up
	stepBegin      // write the target and the state InProgress to the claim
	stepCall       // call the Modifier for the target that the claim has
)

// A view has all that a decision depends on.
type view struct {
	claim  *v1.PersistentVolumeClaim // nil: gone
	volume *v1.PersistentVolume      // the one that the claim names; nil: none
	// isSettled: the last call for the target in the claim has ended without an effect.
	isSettled bool
	// isLost: the class of the target does not exist, so that its call cannot be repeated.
	isLost bool
	// isClean: the volume has the attributes of its present class, as no call since the begin of the change may
	// have had an effect.
	isClean bool
}

// decide returns the next step for a claim, and the class for stepBegin and stepCall. The state is
// status.modifyVolumeStatus:
//
//	           begin                  changed
//	(none) ------------> InProgress ----------> (none)
//	  | ^     ^  ^ begin   |   |
//	  | |     |  '---------|   | infeasible
//	  | |clear|            |   v
//	  | '-----+----- Infeasible
//	  |       |
//	  '--> Pending: the class does not exist
//
// A change whose outcome is open goes on to its class, also if the claim names another one: a late effect
// must not follow the next change. After a failure without an effect the class is that of the claim, which the
// user may have reset to the present one: then the change is given up if no call before the failure may have
// had an effect, and otherwise the volume changes back. A change that is open and cannot be repeated is followed
// by one to the class that the claim names, also if that is the present one. So does a volume that shows another
// class than its claim.
func decide(v view) (step, string) {
	if v.claim == nil || v.volume == nil || !claimstatus.IsBound(v.claim, v.volume) {
		return stepNone, ""
	}
	wanted, present := value(v.claim.Spec.VolumeAttributesClassName), value(v.claim.Status.CurrentVolumeAttributesClassName)
	state, isShown := stateOf(v.claim), present == value(v.volume.Spec.VolumeAttributesClassName)
	isOpen := state.Status == inProgress && !v.isSettled
	switch {
	case isOpen && (!v.isLost || wanted == "" || wanted == state.TargetVolumeAttributesClassName):
		return stepCall, state.TargetVolumeAttributesClassName
	case isOpen:
		return stepBegin, wanted
	case v.claim.Status.ModifyVolumeStatus == nil && (wanted == "" || wanted == present && isShown):
		return stepNone, ""
	case wanted == "" || wanted == present && v.isClean && isShown:
		return stepClear, ""
	case state.Status == inProgress && state.TargetVolumeAttributesClassName == wanted:
		return stepCall, wanted
	}
	return stepBegin, wanted
}

// stateOf returns the state of the change of a claim; its zero value if there is none.
func stateOf(claim *v1.PersistentVolumeClaim) v1.ModifyVolumeStatus {
	if claim.Status.ModifyVolumeStatus == nil {
		return v1.ModifyVolumeStatus{}
	}
	return *claim.Status.ModifyVolumeStatus
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

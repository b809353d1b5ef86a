package provision

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A volumeAttempt is the memory of the controller for a volume. It is not needed after a crash.
type volumeAttempt struct {
	isDeleted bool // the storage
	retry     retry
}

// A volumeView is all that a decision about a volume depends on.
type volumeView struct {
	rules      rules
	volume     *v1.PersistentVolume // nil: does not exist
	claimLives bool                 // the claim with the UID of the volume's reference exists
	pause      time.Duration        // before the next look at a claim that the cache does not have
	permitted  bool                 // by the deletion guard
	attempt    volumeAttempt
}

// A volumeStep is the next step of the controller for a volume.
type volumeStep int

const (
	volumeForget  volumeStep = iota // nothing is to be done, and nothing to be remembered
	volumeWait                      // nothing is to be done now
	volumeGuard                     // add the finalizer
	volumeRelease                   // remove the finalizer
	volumeReclaim                   // delete the storage
	volumeRemove                    // delete the object, and remove the finalizer
)

// decideVolume returns the next step for a volume:
//
//	Bound, policy Delete --guard--> guarded --the binder--> Released --reclaim--> deleted --remove--> forget
//	                                  |                        |
//	                                  +--policy changes--------+--policy changes--> release --> forget
//
// The finalizer keeps the object of a volume that a user deletes until the storage is deleted. It goes
// at once if the policy is no longer Delete.
func decideVolume(v volumeView, now time.Time) (step volumeStep, wait time.Duration) {
	pv := v.volume
	switch {
	case pv == nil:
		return volumeForget, 0
	case v.attempt.isDeleted:
		return v.removal(), 0
	case !v.rules.owns(pv):
		return volumeForget, 0
	case pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete:
		return v.release(), 0
	case v.isReclaimable():
		return v.unlessPaused(volumeReclaim, now)
	case !v.rules.guardsVolumes && pv.DeletionTimestamp == nil:
		return v.release(), 0
	case v.rules.guardsVolumes && pv.Status.Phase == v1.VolumeBound && pv.DeletionTimestamp == nil && !v.hasGuard():
		return volumeGuard, 0
	}
	return volumeForget, 0
}

// isReclaimable reports whether the storage of an owned volume with the policy Delete is to be
// deleted. The object of a volume in deletion without the finalizer is not ours any more. A reference
// without a UID reserves the volume for a later claim.
func (v volumeView) isReclaimable() bool {
	pv := v.volume
	return pv.Status.Phase == v1.VolumeReleased && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID != "" &&
		(pv.DeletionTimestamp == nil || v.hasGuard()) && !v.claimLives && v.permitted
}

// hasGuard reports whether a volume has the finalizer, or that of another program which provisioned with the
// same name before.
func (v volumeView) hasGuard() bool {
	return slices.ContainsFunc(v.rules.guardNames(), func(name string) bool { return slices.Contains(v.volume.Finalizers, name) })
}

// removal returns the step after the storage is deleted.
func (v volumeView) removal() volumeStep {
	if v.volume.DeletionTimestamp == nil || v.hasGuard() {
		return volumeRemove
	}
	return volumeForget
}

func (v volumeView) release() volumeStep {
	if v.hasGuard() {
		return volumeRelease
	}
	return volumeForget
}

// unlessPaused returns the step, or volumeWait during a pause after failures.
func (v volumeView) unlessPaused(step volumeStep, now time.Time) (volumeStep, time.Duration) {
	if wait, paused := v.attempt.retry.pause(now, v.inputs()); paused {
		return volumeWait, wait
	}
	return step, 0
}

// inputs returns the part of the view whose change ends a pause.
func (v volumeView) inputs() string {
	pv := v.volume
	return fmt.Sprint(pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy, pv.DeletionTimestamp != nil, pv.Annotations[MigratedToAnnotation])
}

package provision

import (
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A volumeAttempt is the memory of the controller for a volume. It is not needed after a crash.
type volumeAttempt struct {
	uid       types.UID
	isDeleted bool // the storage
	retry     retry
}

// volumeAttempts are the memory of the controller for volumes, by their names, which are the keys of the workers: the
// turn that finds the end of a volume follows all others. The worker of a volume alone uses its attempt.
type volumeAttempts struct {
	mu     sync.Mutex
	byName map[string]*volumeAttempt
}

// of returns the attempt of a volume, a new one if there was none.
func (a *volumeAttempts) of(pv *v1.PersistentVolume) *volumeAttempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	if attempt := a.byName[pv.Name]; attempt != nil && attempt.uid == pv.UID {
		return attempt
	}
	if a.byName == nil {
		a.byName = map[string]*volumeAttempt{}
	}
	attempt := &volumeAttempt{uid: pv.UID}
	a.byName[pv.Name] = attempt
	return attempt
}

func (a *volumeAttempts) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byName, name)
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
// at once if the policy is no longer Delete, and from a static volume in deletion that no claim has any more.
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
	case v.isFreeInDeletion():
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

// isFreeInDeletion reports whether a volume that was not provisioned is being deleted while it is bound to no claim,
// as after a user has removed its reference. Its storage stays.
func (v volumeView) isFreeInDeletion() bool {
	pv := v.volume
	isFree := pv.Status.Phase == v1.VolumeAvailable && (pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "")
	return isFree && pv.DeletionTimestamp != nil && pv.Annotations[ProvisionedByAnnotation] == ""
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

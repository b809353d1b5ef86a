package bind

import (
	"strings"

	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
)

// A deleter is the program that deletes the storage of a volume with the policy Delete.
type deleter int

const (
	deletedElsewhere deleter = iota // a program that the volume's annotations name, or a CSI driver
	deletedHere                     // a plugin of this program
	deletedNowhere                  // no plugin supports the volume
)

// A volumeView is all that a decision about a volume depends on.
type volumeView struct {
	volume *v1.PersistentVolume      // nil: does not exist
	claim  *v1.PersistentVolumeClaim // the one that the volume's reference names; nil: does not exist
	// owner is a claim that has been bound to a volume without a reference. Nil: none.
	owner *v1.PersistentVolumeClaim
	// isConfirmed: the API server has confirmed that no claim has the UID of the reference.
	isConfirmed bool
	// isRead: the claims that have been bound to the volume were read from the API server.
	isRead   bool
	deleter  deleter
	recycles bool // a plugin of this program recycles the volume
}

// A volumeStep is the next step of the controller for a volume.
type volumeStep int

const (
	volumeForget    volumeStep = iota // the volume does not exist
	volumeHold                        // nothing is to be done now
	volumeConfirm                     // read the claim from the API server
	volumeFindOwner                   // read the claims that have been bound to the volume from the API server
	volumeAvailable                   // write the phase Available
	volumeClaim                       // the claim has the next step
	volumeRelease                     // write the phase Released
	volumeFail                        // write the phase Failed
	volumeUnbind                      // remove the reference, or its UID
	volumeRestore                     // write the reference again that a user has removed during a recycling
	volumeRecycle                     // recycle, then remove the reference
)

// decideVolume returns the next step for a volume, and the event of this step. The phases:
//
//	                   a claim's worker          the claim is gone
//	Pending --> Available -----------> Bound --------------------> Released --delete--> (the end)
//	               ^  ^                                              |  ^ |
//	               |  +-- unbind: the claim was bound to another ----+  | | no plugin recycles
//	               |      volume, or never to this one                  | | or deletes, recycling fails
//	               |                                                    | v
//	               +-------------------- recycle -------------------- Failed
//
// A volume is unbound, and not released, if the controller has written its reference and the claim was
// never bound to it: no pod can have used the volume. Storage is deleted and recycled for Released and
// Failed volumes alone, after the API server has confirmed that the claim is gone.
func decideVolume(v volumeView) (volumeStep, note) {
	pv := v.volume
	if pv == nil {
		return volumeForget, note{}
	}
	if isMarked(pv) {
		return v.decideMarked()
	}
	switch ref := pv.Spec.ClaimRef; {
	case ref == nil && v.owner != nil:
		return volumeClaim, note{} // the volume has the data of the claim
	case ref != nil && ref.UID == "" && v.claim != nil && has(v.claim, BindCompletedAnnotation) && v.claim.Spec.VolumeName == pv.Name:
		return volumeClaim, note{} // a user has removed the UID
	case ref == nil && pv.Status.Phase == v1.VolumeBound && !v.isRead: // a user has removed the reference of a claim
		return volumeFindOwner, note{}
	case ref == nil || ref.UID == "":
		if pv.Status.Phase == v1.VolumeAvailable {
			return volumeHold, note{}
		}
		return volumeAvailable, note{}
	case v.claim != nil && v.claim.UID == ref.UID:
		return v.decideClaimed()
	case isReclaimed(pv):
		return v.reclaim()
	case !v.isConfirmed:
		return volumeConfirm, note{}
	case v.wasNeverBound():
		return volumeUnbind, note{}
	}
	return volumeRelease, note{}
}

// decideMarked returns the step for a volume whose recycling has begun and may not have ended. The volume
// stays as it is until a call of the recycler has ended with success; a reference that a user has removed
// meanwhile is written again, so that the next call finds the claim.
func (v volumeView) decideMarked() (volumeStep, note) {
	pv, m := v.volume, markOf(v.volume)
	switch ref, policy := pv.Spec.ClaimRef, pv.Spec.PersistentVolumeReclaimPolicy; {
	case policy == v1.PersistentVolumeReclaimRetain, !m.isOf(ref) && !m.restores(ref):
		return volumeHold, warn(reasonFailedRecycle, "Files of the volume may still be removed. "+
			"To end this, restore its reference and the policy Recycle, or remove the annotation %s when no recycler runs.", RecyclingAnnotation)
	case !m.isOf(ref):
		return volumeRestore, warn(reasonFailedRecycle, "The reference is restored: the recycling of the volume has begun.")
	case isReclaimed(pv):
		return v.reclaim()
	case v.claim != nil && v.claim.UID == m.UID:
		return volumeHold, note{}
	case v.isConfirmed:
		return volumeRelease, note{}
	}
	return volumeConfirm, note{}
}

// isReclaimed reports whether a volume has been released.
func isReclaimed(pv *v1.PersistentVolume) bool {
	return pv.Status.Phase == v1.VolumeReleased || pv.Status.Phase == v1.VolumeFailed
}

// wasNeverBound reports whether a volume whose claim is gone was chosen by the controller, and the claim
// was deleted before it was bound: the phase Bound follows the name in the claim, and precedes the phase
// Bound of the claim, without which no pod starts. A provisioned volume has no other use.
func (v volumeView) wasNeverBound() bool {
	pv := v.volume
	isNew := pv.Status.Phase == "" || pv.Status.Phase == v1.VolumePending || pv.Status.Phase == v1.VolumeAvailable
	return isNew && has(pv, BoundByControllerAnnotation) && !has(pv, provision.ProvisionedByAnnotation)
}

// decideClaimed returns the step for a volume whose claim exists.
func (v volumeView) decideClaimed() (volumeStep, note) {
	pv, claim := v.volume, v.claim
	switch {
	case claim.Spec.VolumeName == "" && volumeModeOf(pv.Spec.VolumeMode) != volumeModeOf(claim.Spec.VolumeMode):
		return volumeHold, warn(reasonVolumeMismatch,
			"Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name)
	case claim.Spec.VolumeName == "":
		return volumeClaim, note{}
	case claim.Spec.VolumeName == pv.Name && pv.Status.Phase == v1.VolumeBound:
		return volumeHold, note{}
	case claim.Spec.VolumeName == pv.Name:
		return volumeClaim, note{}
	case has(pv, provision.ProvisionedByAnnotation) && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete:
		return volumeHold, note{} // until the claim is gone
	}
	return volumeUnbind, note{}
}

// reclaim returns the step for a released volume, by its policy.
func (v volumeView) reclaim() (volumeStep, note) {
	pv := v.volume
	switch policy := pv.Spec.PersistentVolumeReclaimPolicy; {
	case pv.Annotations[provision.MigratedToAnnotation] != "", policy == v1.PersistentVolumeReclaimRetain:
		return volumeHold, note{}
	case policy == v1.PersistentVolumeReclaimRecycle && v.recycles:
		return volumeRecycle, note{}
	case policy == v1.PersistentVolumeReclaimRecycle:
		return v.fail(warn(reasonFailedRecycle, "No recycler plugin found for the volume!"))
	case policy != v1.PersistentVolumeReclaimDelete:
		return v.fail(warn(reasonUnknownPolicy, "Volume has unrecognized PersistentVolumeReclaimPolicy"))
	case v.deleter == deletedNowhere:
		return v.fail(warn(reasonFailedDelete, "no deletable volume plugin matched the volume"))
	case v.deleter == deletedHere && pv.Status.Phase == v1.VolumeFailed:
		return volumeRelease, note{}
	}
	return volumeHold, note{}
}

// fail returns the step for a released volume that nothing reclaims.
func (v volumeView) fail(why note) (volumeStep, note) {
	if v.volume.Status.Phase == v1.VolumeFailed {
		return volumeHold, note{}
	}
	return volumeFail, why
}

func volumeModeOf(mode *v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	if mode == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *mode
}

// isOfKubernetes reports whether only a plugin of the binder's program can have a provisioner's name.
func isOfKubernetes(provisioner string) bool { return strings.HasPrefix(provisioner, ofKubernetes) }

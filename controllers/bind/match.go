package bind

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/util"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errInDeletion is the reason why a volume is not bound anew.
var errInDeletion = errors.New("the volume is being deleted")

// errRecycled is the reason why a marked volume is not bound.
var errRecycled = errors.New("files of the volume may still be removed")

// bindsInDeletion reports whether a volume is bound to the claim that its reference names by UID also after
// the volume has been deleted: its storage was made for this claim, and is deleted after the claim, or a
// user has removed the annotation of a bound claim.
func bindsInDeletion(pv *v1.PersistentVolume) bool {
	isOfClaim := has(pv, provision.ProvisionedByAnnotation) && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete
	return isOfClaim || pv.Status.Phase == v1.VolumeBound
}

// refersTo reports whether the reference of a volume names a claim: its namespace and name, and its UID
// if the reference has one.
func refersTo(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

// isReservedFor reports whether the reference of a volume has the UID of a claim.
func isReservedFor(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	return refersTo(pv, claim) && pv.Spec.ClaimRef.UID != ""
}

// isOpenFor reports whether a volume may be reserved again for a claim that has been bound to it: its reference is gone,
// or has lost its UID, as when a manifest or a backup is applied.
func isOpenFor(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	return pv.Spec.ClaimRef == nil || refersTo(pv, claim) && pv.Spec.ClaimRef.UID == ""
}

// checkMatch returns an error if a claim must not be bound to a volume. For a volume that refers to the
// claim the class and the labels do not count: a user, the scheduler or a provisioner has chosen the
// volume.
func checkMatch(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) error {
	if pv.DeletionTimestamp != nil && !(isReservedFor(pv, claim) && bindsInDeletion(pv)) {
		return fmt.Errorf("persistent volume %s: %w", pv.Name, errInDeletion)
	}
	if isMarked(pv) {
		return fmt.Errorf("persistent volume %s: %w", pv.Name, errRecycled)
	}
	if refersTo(pv, claim) {
		class, _ := storageclass.Named(claim)
		chosen := &v1.PersistentVolume{ObjectMeta: pv.ObjectMeta, Spec: pv.Spec, Status: pv.Status}
		chosen.Annotations, chosen.Spec.StorageClassName = nil, class
		pv = chosen
	}
	return util.MatchVolume(claim, pv, nil)
}

// has reports whether an object has an annotation, of any value.
func has(object metav1.Object, annotation string) bool {
	_, ok := object.GetAnnotations()[annotation]
	return ok
}

// className returns the name of the class of a claim, or "".
func className(claim *v1.PersistentVolumeClaim) string {
	name, _ := storageclass.Named(claim)
	return name
}

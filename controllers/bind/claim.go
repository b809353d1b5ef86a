package bind

import (
	"fmt"

	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// A claimView is all that a decision about a claim depends on.
type claimView struct {
	claim *v1.PersistentVolumeClaim // nil: does not exist
	// volume is the volume that the claim names; for a claim that names none, a volume that refers to
	// the claim; otherwise the volume that is reserved for the claim in memory. Nil: none.
	volume *v1.PersistentVolume
	// leaving is a volume in deletion that refers to a claim without a volume by its UID, and is not to be
	// bound. Nil: none.
	leaving    *v1.PersistentVolume
	isFresh    bool // volume is the named one as the API server, and not a cache, has shown it
	isVerified bool // the API server has confirmed that the claim exists
	isSearched bool // the index has been searched
	// isSole: this state of the volume was written for the claim by this run, or its rivals were read from the API server.
	isSole bool
	// rival is another claim that has been bound to the volume, see rivalOf. Nil: none.
	rival        *v1.PersistentVolumeClaim
	class        *storagev1.StorageClass // of the claim; nil: does not exist
	defaultClass *storagev1.StorageClass // nil: does not exist
	// provisions reports whether a plugin of this program provisions for the class.
	provisions bool
	consumers  []string // see consumersOf
}

// A claimStep is the next step of the controller for a claim.
type claimStep int

const (
	claimForget     claimStep = iota // the claim does not exist
	claimHold                        // nothing is to be done now
	claimConfirm                     // read the named volume from the API server
	claimVerify                      // read the claim from the API server
	claimFindRivals                  // read the rivals from the API server
	claimSearch                      // search the index for a volume
	claimReserve                     // write the reference of the volume
	claimUnbind                      // remove the reference of a volume in deletion
	claimBind                        // write the volume's name to the claim
	claimBindPhase                   // write the phase of the volume
	claimStatus                      // write the status of a bound claim
	claimReset                       // write the status of an unbound claim
	claimLose                        // write the phase Lost
	claimClass                       // write the default class to the claim
	claimRequest                     // request the provisioner by annotations
)

// A note is an event. The zero value is none.
type note struct {
	kind, reason, message string
}

func warn(reason, format string, args ...any) note {
	return note{v1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

func tell(reason, format string, args ...any) note {
	return note{v1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

// decideClaim returns the next step for a claim, and the event of this step. The phases:
//
//	          a volume fits, or refers to the claim
//	Pending --------------------------------------> Bound
//	   ^ ^     (reserve, bind, phase, status)        |
//	   | |                                           | the volume does not exist, or refers to another claim,
//	   | +-- the volume refers to the claim again -- v or spec.volumeName was removed
//	   +---- a user removed bind-completed -------- Lost
//
// The order of the writes of a pair: the reference of the volume, the name in the claim, the phase of the
// volume, the status of the claim. The first one is refused if the volume has changed since the view, and
// the second one if the claim names a volume already: so no interleaving of writers binds an object
// twice.
func decideClaim(v claimView) (claimStep, note) {
	claim := v.claim
	switch {
	case claim == nil:
		return claimForget, note{}
	case has(claim, BindCompletedAnnotation):
		return v.decideBound()
	case claim.Spec.VolumeName != "":
		return v.decideNamed()
	case v.leaving != nil: // the reference would keep it for ever
		return claimUnbind, note{}
	case claim.DeletionTimestamp != nil:
		return claimHold, note{}
	}
	return v.decideUnbound()
}

// decideBound returns the step for a claim that has been bound.
func (v claimView) decideBound() (claimStep, note) {
	claim, pv := v.claim, v.volume
	switch {
	case claim.Spec.VolumeName == "":
		return v.lose(reasonClaimLost, "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	case !v.isFresh && (pv == nil || !isOpenFor(pv, claim) && !isReservedFor(pv, claim) || pv.Spec.ClaimRef == nil && v.rival != nil):
		return claimConfirm, note{} // the cache may be late
	case pv == nil:
		return v.lose(reasonClaimLost, "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case pv.Spec.ClaimRef == nil && v.rival != nil:
		return v.lose(reasonClaimMisbound, misbound)
	case isMarked(pv) && (isOpenFor(pv, claim) || isReservedFor(pv, claim)):
		return claimHold, note{}
	case isOpenFor(pv, claim):
		return claimReserve, note{}
	case !isReservedFor(pv, claim):
		return v.lose(reasonClaimMisbound, misbound)
	}
	return v.finish()
}

const misbound = "Two claims are bound to the same volume, this one is bound incorrectly"

// finish returns the step for a claim and a volume that refer to each other.
func (v claimView) finish() (claimStep, note) {
	switch {
	case v.claim.Status.Phase == v1.ClaimLost && !v.isFresh: // another binder may have a newer view
		return claimConfirm, note{}
	case v.claim.Status.Phase == v1.ClaimLost: // becomes a rival of later claims, before it is bound
		return claimReset, note{}
	case v.claim.Status.Phase != v1.ClaimBound && v.rival != nil:
		return claimHold, note{} // until the rival is Lost
	case v.claim.Status.Phase != v1.ClaimBound && v.volume.Status.Phase == v1.VolumeBound && !v.isSole: // by another writer
		return claimFindRivals, note{}
	case isReclaimed(v.volume) && !v.isVerified: // another binder may have seen the end of the claim
		return claimVerify, note{}
	case v.volume.Status.Phase != v1.VolumeBound:
		return claimBindPhase, note{}
	case boundStatus(v.claim, v.volume) != nil:
		return claimStatus, note{}
	}
	return claimHold, note{}
}

// lose returns the step for a claim that has lost its volume.
func (v claimView) lose(reason, message string) (claimStep, note) {
	if v.claim.Status.Phase == v1.ClaimLost {
		return claimHold, note{}
	}
	return claimLose, warn(reason, "%s", message)
}

// decideNamed returns the step for a claim that names a volume and has not been bound.
func (v claimView) decideNamed() (claimStep, note) {
	claim, pv := v.claim, v.volume
	switch {
	case claim.DeletionTimestamp != nil && (pv == nil || !isReservedFor(pv, claim)):
		return claimHold, note{}
	case pv == nil:
		return v.wait(note{})
	case isMarked(pv):
		return v.wait(warn(reasonFailedBinding, "Cannot bind to requested volume %q: %v", pv.Name, errRecycled))
	case pv.Spec.ClaimRef != nil && !refersTo(pv, claim):
		return v.wait(warn(reasonFailedBinding, "volume %q already bound to a different claim.", pv.Name))
	case v.rival != nil:
		return v.wait(warn(reasonFailedBinding, "volume %q is bound to the claim %s/%s.", pv.Name, v.rival.Namespace, v.rival.Name))
	case pv.DeletionTimestamp != nil && isReservedFor(pv, claim) && bindsInDeletion(pv):
		return claimBind, note{}
	case pv.DeletionTimestamp != nil && isReservedFor(pv, claim):
		return claimUnbind, warn(reasonVolumeMismatch, "Cannot bind to requested volume %q: %v", pv.Name, errInDeletion)
	case pv.DeletionTimestamp != nil:
		return v.wait(warn(reasonVolumeMismatch, "Cannot bind to requested volume %q: %v", pv.Name, errInDeletion))
	case pv.Spec.ClaimRef == nil:
		if err := checkMatch(claim, pv); err != nil {
			return v.wait(warn(reasonVolumeMismatch, "Cannot bind to requested volume %q: %v", pv.Name, err))
		}
	}
	if !isReservedFor(pv, claim) {
		return claimReserve, note{}
	}
	return claimBind, note{}
}

// decideUnbound returns the step for a claim that names no volume.
func (v claimView) decideUnbound() (claimStep, note) {
	claim, pv := v.claim, v.volume
	waits := v.class != nil && storageclass.WaitsForConsumer(v.class)
	name, hasClass := storageclass.Named(claim)
	switch {
	case pv != nil && v.rival != nil:
		return v.wait(warn(reasonFailedBinding, "volume %q is bound to the claim %s/%s.", pv.Name, v.rival.Namespace, v.rival.Name))
	case pv != nil && !isReservedFor(pv, claim):
		return claimReserve, note{}
	case pv != nil:
		return claimBind, note{}
	case awaitsConsumer(claim, v.class):
		return v.wait(consumerNote(v.consumers))
	case !waits && !v.isSearched:
		return claimSearch, note{}
	case !hasClass && v.defaultClass != nil:
		return claimClass, note{}
	case name != "":
		return v.provision(name)
	}
	return v.wait(tell(reasonFailedBinding, "no persistent volumes available for this claim and no storage class is set"))
}

// provision returns the step for a claim that needs a new volume.
func (v claimView) provision(class string) (claimStep, note) {
	if v.class == nil {
		return v.wait(warn(reasonProvisioningFailed, "storageclass.storage.k8s.io %q not found", class))
	}
	name := v.class.Provisioner
	isExternal := !v.provisions && !isOfKubernetes(name)
	switch {
	case !v.provisions && !isExternal:
		return v.wait(warn(reasonProvisioningFailed, "no volume plugin matched name: %s", name))
	case v.claim.Annotations[provision.ProvisionerAnnotation] != name:
		return claimRequest, note{}
	case isExternal:
		return v.wait(tell(reasonExternalProvisioning, "Waiting for a volume to be created either by the external provisioner '%s' "+
			"or manually by the system administrator. If volume creation is delayed, please verify that "+
			"the provisioner is running and correctly registered.", name))
	}
	return v.wait(note{})
}

// wait returns the step for a claim that stays unbound.
func (v claimView) wait(why note) (claimStep, note) {
	if unboundStatus(v.claim) != nil {
		return claimReset, why
	}
	return claimHold, why
}

package provision

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// A claimView is all that a decision about a claim depends on.
type claimView struct {
	rules   rules
	claim   *v1.PersistentVolumeClaim // nil: does not exist
	class   *storagev1.StorageClass   // nil: does not exist
	volume  *v1.PersistentVolume      // the one with the name of the claim's volume; nil: does not exist
	role    role
	attempt claimAttempt
}

// A claimStep is the next step of the controller for a claim.
type claimStep int

const (
	claimForget     claimStep = iota // nothing is to be done, and nothing to be remembered
	claimWait                        // nothing is to be done now
	claimConfirm                     // read the claim from the API server
	claimGuard                       // add the finalizer and the default class
	claimProvision                   // call Provision
	claimStore                       // create the volume's object
	claimFind                        // read the volume's object from the API server
	claimDiscard                     // delete the storage that no object can describe
	claimMark                        // mark the end of the discard
	claimReschedule                  // remove the selected node and the finalizer
	claimRelease                     // remove the finalizer
)

// decideClaim returns the next step for a claim. The storage of a claim is absent, possible, or
// unknown after a start of the controller:
//
//	                    +-------------- final error -------------+
//	                    v                                        |
//	absent --guard--> guarded --provision--> possible --ok--> described --store--> stored --release--> forget
//	                    |                     ^     |            |
//	                    |                     +-----+            | the API server refuses the object
//	                    |                 uncertain error        v
//	                    +--reschedule, deleted--> forget       discard --> absent
//
//	unknown, with the finalizer --confirm--> possible
//
// A claim with the finalizer cannot end. The finalizer comes before the first call of Provision and
// goes after the volume's object exists or no storage does. So a claim or a volume leads each later
// run to the storage.
func decideClaim(v claimView, now time.Time) (step claimStep, wait time.Duration) {
	a := v.attempt
	switch {
	case a.endsDiscard:
		return claimMark, 0
	case v.isStored():
		return v.endStored(now)
	case v.isNameTaken() && v.role != ready: // the storage of this name is described by a volume
		return v.end(), 0
	case v.awaitDiscard(now) > 0:
		return claimWait, v.awaitDiscard(now)
	case a.refusal != nil:
		return v.unlessPaused(claimDiscard, now)
	case a.described != nil && v.isMarked(): // another controller has discarded the storage since
		return v.unlessPaused(claimProvision, now)
	case a.described != nil:
		return claimStore, 0
	case v.role == foreign && !a.isOurs:
		return claimForget, 0
	case a.storage == storageUnknown && v.hasGuard():
		return claimConfirm, 0
	case a.storage == storagePossible:
		return v.unlessPaused(claimProvision, now)
	case a.unfitNode != "" && v.claim != nil && selectedNode(v.claim) == a.unfitNode:
		return claimReschedule, 0
	case v.role != ready, a.isIgnored && a.retry.inputs == v.inputs():
		return v.end(), 0
	case v.lacksGuard():
		return v.unlessPaused(claimGuard, now)
	}
	return v.unlessPaused(claimProvision, now)
}

// isStored reports whether the object of the claim's volume exists.
func (v claimView) isStored() bool {
	return v.volume != nil && v.attempt.claim != nil && belongsTo(v.volume, v.attempt.claim)
}

// endStored returns the step for a claim whose volume's object exists. That of another storage is not its own: storage
// that it has, or may have, besides is a second one, and deleted. If the object is late, the
// controller waits for its end, to call again. If another controller may have discarded the storage, it
// is provisioned again; a claim in deletion does not wait for a call that fails.
func (v claimView) endStored(now time.Time) (step claimStep, wait time.Duration) {
	a := v.attempt
	switch {
	case a.hasDiscarded: // the controller of the other storage removes the finalizer and the mark
		return claimWait, 0
	case v.mayHaveSecond():
		return v.unlessPaused(claimProvision, now)
	case a.storage == storagePossible && a.object == objectUnknown:
		return claimFind, 0
	case a.storage == storagePossible && a.object == objectIsLate:
		return claimWait, 0
	case !v.isMarked(), a.isIgnored, v.claim.DeletionTimestamp != nil && a.retry.failures > 0:
		return v.end(), 0
	case !v.isProvisioning(): // a tenant has set the mark
		return v.end(), 0
	case v.awaitDiscard(now) > 0:
		return claimWait, v.awaitDiscard(now)
	}
	return v.unlessPaused(claimProvision, now)
}

// mayHaveSecond reports whether an uncertain call may have created storage in another system than that of the stored
// volume: the next call shows it.
func (v claimView) mayHaveSecond() bool {
	a := v.attempt
	return a.storage == storagePossible && a.isOpen && v.volume.Annotations[volume.StorageAnnotation] != ""
}

// isProvisioning reports whether this run or an earlier one has not ended its work for the claim: a discard adds the
// finalizer with its mark, and a run that has stored the object removes the finalizer from no claim with a mark that
// it has not read.
func (v claimView) isProvisioning() bool { return v.hasGuard() || v.attempt.isOurs }

// isRestored reports whether the claim has the mark of a discard, and its storage was provisioned again.
func (v claimView) isRestored() bool {
	mark := markOf(v.claim)
	return v.isStored() && mark != "" && mark == v.attempt.mark
}

// isNameTaken reports whether another claim has a volume of the name.
func (v claimView) isNameTaken() bool { return v.volume != nil && !v.isStored() }

// end returns the last step: the claim needs no finalizer.
func (v claimView) end() claimStep {
	switch {
	case v.hasGuard(), v.isRestored():
		return claimRelease
	case v.attempt.isIgnored && v.claim != nil:
		return claimWait
	}
	return claimForget
}

func (v claimView) hasGuard() bool {
	return v.claim != nil && slices.Contains(v.claim.Finalizers, ClaimFinalizer)
}

// lacksGuard reports whether the claim needs a write before Provision: its finalizer, or its class,
// which must not change between Provision and the binding of the volume.
func (v claimView) lacksGuard() bool {
	_, isSet := storageclass.Named(v.claim)
	return v.rules.guardsClaims && !v.hasGuard() || !isSet
}

// unlessPaused returns the step, or claimWait during a pause after failures.
func (v claimView) unlessPaused(step claimStep, now time.Time) (claimStep, time.Duration) {
	if v.attempt.retry.failures == 0 { // saves the inputs
		return step, 0
	}
	if wait, paused := v.attempt.retry.pause(now, v.inputs()); paused {
		return claimWait, wait
	}
	return step, 0
}

// inputs returns the part of the view whose change ends a pause.
func (v claimView) inputs() string {
	var class, claim string
	if v.class != nil {
		class = string(v.class.UID) + " " + v.class.ResourceVersion
	}
	if c := v.claim; c != nil {
		attributes := ""
		if c.Spec.VolumeAttributesClassName != nil {
			attributes = *c.Spec.VolumeAttributesClassName
		}
		claim = fmt.Sprintf("%q %q %v %s", selectedNode(c), attributes, c.DeletionTimestamp != nil, metadataOf(c))
	}
	return class + " " + claim
}

// metadataOf returns a hash of the labels and annotations of a claim, which a Provisioner may read. The
// annotations of Kubernetes' own programs, this one's among them, are left out: their writes must not
// end a pause.
func metadataOf(claim *v1.PersistentVolumeClaim) string {
	annotations := maps.Clone(claim.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return isOfKubernetes(key) || key == DiscardAnnotation })
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %q", claim.Labels, annotations)))
}

// isOfKubernetes reports whether a label or an annotation has a prefix that Kubernetes reserves.
func isOfKubernetes(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io"}, func(domain string) bool {
		return prefix == domain || strings.HasSuffix(prefix, "."+domain)
	})
}

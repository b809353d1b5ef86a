package modify

import (
	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// addClaim queues a claim that is new, or asks for another class; its volume may show another class than its status.
// The states that this controller writes are no reason: a failure would have no pause.
func (c *Controller) addClaim(change api.Change[*v1.PersistentVolumeClaim]) {
	old, claim := change.Old, change.New
	switch {
	case claim == nil:
		c.pool.Add(change.Key()) // the last turn forgets the claim
	case change.Replay:
		if mayChange(claim) {
			c.pool.AddReplay(change.Key())
		}
	case old == nil || old.UID != claim.UID || isNewsOf(old, claim):
		c.pool.Add(change.Key())
	}
}

// mayChange reports whether a claim may have a step for its own state.
func mayChange(claim *v1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == v1.ClaimBound && (claim.Status.ModifyVolumeStatus != nil ||
		value(claim.Spec.VolumeAttributesClassName) != value(claim.Status.CurrentVolumeAttributesClassName))
}

// isNewsOf reports whether the change of a claim may be the cause of a step.
func isNewsOf(old, claim *v1.PersistentVolumeClaim) bool {
	return value(claim.Spec.VolumeAttributesClassName) != value(old.Spec.VolumeAttributesClassName) ||
		value(claim.Status.CurrentVolumeAttributesClassName) != value(old.Status.CurrentVolumeAttributesClassName) ||
		claim.Status.Phase != old.Status.Phase || claim.Spec.VolumeName != old.Spec.VolumeName
}

// addVolume queues the claim of a volume that is new, or has another claim or class than before. The replay of
// the claim is enough for a volume without a class.
func (c *Controller) addVolume(change api.Change[*v1.PersistentVolume]) {
	old, pv := change.Old, change.New
	if pv == nil || pv.Spec.ClaimRef == nil {
		return
	}
	key := api.Key{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
	switch {
	case change.Replay && pv.Spec.VolumeAttributesClassName != nil:
		c.pool.AddReplay(key)
	case change.Replay:
	case old == nil || old.UID != pv.UID || claimOf(old) != pv.Spec.ClaimRef.UID,
		value(old.Spec.VolumeAttributesClassName) != value(pv.Spec.VolumeAttributesClassName):
		c.pool.Add(key)
	}
}

// claimOf returns the UID of the claim that a volume refers to.
func claimOf(pv *v1.PersistentVolume) types.UID {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.UID
}

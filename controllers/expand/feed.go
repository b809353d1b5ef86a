package expand

import (
	"reflect"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// addClaim queues a claim whose request has changed, whose node has ended an expansion, or that is new
// and may have a step. The states that this controller writes are no reason: a failure would have no
// pause.
func (c *Controller) addClaim(change api.Change[*v1.PersistentVolumeClaim]) {
	old, claim := change.Old, change.New
	switch {
	case claim == nil:
		c.pool.Add(change.Key()) // the last turn forgets the claim
	case change.Replay:
		if mayExpand(claim) {
			c.pool.AddReplay(change.Key())
		}
	case old == nil || old.UID != claim.UID || isNewsOf(old, claim):
		c.pool.Add(change.Key())
	}
}

// mayExpand reports whether a claim may have a step for its own status. The end of an expansion on a
// node is seen by the annotation of the volume.
func mayExpand(claim *v1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == v1.ClaimBound &&
		(!isSame(claim.Spec.Resources.Requests, claim.Status.Capacity) || stateOf(claim) != "")
}

// isNewsOf reports whether the change of a claim may be the cause of a step.
func isNewsOf(old, claim *v1.PersistentVolumeClaim) bool {
	state := stateOf(claim)
	return !isSame(claim.Spec.Resources.Requests, old.Spec.Resources.Requests) || !isSame(claim.Status.Capacity, old.Status.Capacity) ||
		claim.Status.Phase != old.Status.Phase || claim.Spec.VolumeName != old.Spec.VolumeName ||
		state != stateOf(old) && (state == "" || state == nodeInfeasible)
}

// isSame reports whether two lists have the same size of storage, in the same spelling.
func isSame(a, b v1.ResourceList) bool {
	return reflect.DeepEqual(a[v1.ResourceStorage], b[v1.ResourceStorage])
}

func stateOf(claim *v1.PersistentVolumeClaim) v1.ClaimResourceStatus {
	return claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]
}

// addVolume queues the claim of a volume that is new, that has another claim than before, or whose growth has ended
// before the cache shows its annotation.
func (c *Controller) addVolume(change api.Change[*v1.PersistentVolume]) {
	pv := change.New
	if pv == nil || pv.Spec.ClaimRef == nil {
		return
	}
	key := api.Key{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
	switch {
	case change.Replay:
		if isMarked(pv) { // otherwise the replay of the claim is enough
			c.pool.AddReplay(key)
		}
	case change.Old == nil || change.Old.UID != pv.UID || claimOf(change.Old) != pv.Spec.ClaimRef.UID,
		isMarked(pv) && !isMarked(change.Old) && c.isIdle(key):
		c.pool.Add(key)
	}
}

// isMarked reports whether a volume has the annotation of a growth, which waits for its removal.
func isMarked(pv *v1.PersistentVolume) bool {
	_, ok := pv.Annotations[CapacityBeforeAnnotation]
	return ok
}

// isIdle reports whether the cache has a claim, and no expansion of it.
func (c *Controller) isIdle(key api.Key) bool {
	claim, ok := c.claims.Cache().Get(key)
	return ok && stateOf(claim) == ""
}

// claimOf returns the UID of the claim that a volume refers to.
func claimOf(pv *v1.PersistentVolume) types.UID {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.UID
}

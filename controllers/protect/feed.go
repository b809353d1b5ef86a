package protect

import (
	"reflect"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/claimindex"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	v1 "k8s.io/api/core/v1"
)

// volumesByClaim is the name of the index of volumes by the keys of their claims.
const volumesByClaim = "volumekit.io/protect/volumes"

// claimKeysOfVolume returns the values of a volume in its index.
func claimKeysOfVolume(pv *v1.PersistentVolume) []string {
	if key, ok := claimKeyOf(pv); ok {
		return []string{key.String()}
	}
	return nil
}

// endsOld reports whether a change has ended the object before it.
func endsOld[O object](change api.Change[O]) bool {
	var none O
	return change.Old != none && (change.New == none || change.New.GetUID() != change.Old.GetUID())
}

// beginsNew reports whether the object after a change is new to the controller.
func beginsNew[O object](change api.Change[O]) bool {
	var none O
	return change.New != none && (change.Old == none || change.Replay || endsOld(change))
}

// addClaim queues a claim with a step, the volumes of a claim that was bound or has ended, and the pods
// whose claim has another owner now, or has ended.
func (c *Controller) addClaim(change api.Change[*v1.PersistentVolumeClaim]) {
	if claim := change.New; c.claimPool != nil && claim != nil && c.concernsClaim(change) {
		add(c.claimPool, change.Key(), change.Replay)
	}
	old := change.Old
	if old == nil {
		return
	}
	hasEnded := endsOld(change)
	if c.volumePool != nil && (hasEnded || change.New.Spec.VolumeName != old.Spec.VolumeName) {
		volumes, _ := c.volumes.Cache().ByIndex(volumesByClaim, change.Key().String())
		for _, pv := range volumes {
			c.volumePool.Add(api.KeyOf(pv))
		}
	}
	if c.podPool != nil && (hasEnded || !reflect.DeepEqual(change.New.OwnerReferences, old.OwnerReferences)) {
		pods, _ := claimindex.Pods(c.pods, change.Key())
		for _, pod := range pods {
			if hasEphemeral(pod) {
				c.podPool.Add(api.KeyOf(pod))
			}
		}
	}
}

// concernsClaim reports whether a changed claim may have a step.
func (c *Controller) concernsClaim(change api.Change[*v1.PersistentVolumeClaim]) bool {
	claim := change.New
	if decide(claim, ClaimFinalizer, usageUnread) != stepNone {
		return true
	}
	if !c.config.ReportUnused {
		return false
	}
	if claim.Status.Phase != v1.ClaimBound {
		return false
	}
	// After a start, the users of each claim may have changed meanwhile. The owner decides whether a pod uses a claim.
	return beginsNew(change) || change.Old.Status.Phase != v1.ClaimBound || unusedStatus(claim) == "" ||
		!reflect.DeepEqual(claim.OwnerReferences, change.Old.OwnerReferences)
}

// addVolume queues a volume with a step.
func (c *Controller) addVolume(change api.Change[*v1.PersistentVolume]) {
	if pv := change.New; pv != nil && decide(pv, VolumeFinalizer, usageUnread) != stepNone {
		add(c.volumePool, change.Key(), change.Replay)
	}
}

// addPod queues a new pod with ephemeral volumes, and the claims of pods that have come or gone.
func (c *Controller) addPod(change api.Change[*v1.Pod]) {
	isNew := beginsNew(change)
	if c.podPool != nil && isNew && hasEphemeral(change.New) {
		add(c.podPool, change.Key(), change.Replay)
	}
	if c.claimPool == nil {
		return
	}
	if endsOld(change) {
		c.addClaimsOf(change.Old, false)
	}
	if change.New != nil && (c.config.ReportUnused && isNew || c.endsUse(change)) {
		c.addClaimsOf(change.New, change.Replay)
	}
}

// endsUse reports whether a pod that exists has ended the use of a claim. A late status may show that it has not.
func (c *Controller) endsUse(change api.Change[*v1.Pod]) bool {
	old, pod := change.Old, change.New
	return old != nil && (isShutDown(pod) && !isShutDown(old) || c.config.ReportUnused && claimindex.IsFinished(pod) != claimindex.IsFinished(old))
}

// addClaimsOf queues the claims of a pod.
func (c *Controller) addClaimsOf(pod *v1.Pod, isReplay bool) {
	for _, claim := range claimindex.ClaimsOf(pod) {
		add(c.claimPool, claim, isReplay)
	}
}

func add(pool *workers.Pool[api.Key], key api.Key, isReplay bool) {
	if isReplay {
		pool.AddReplay(key)
		return
	}
	pool.Add(key)
}

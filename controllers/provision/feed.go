package provision

import (
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// concerns reports whether the controller may have a step for a claim. One with a mark has the finalizer, too.
func (c *Controller) concerns(claim *v1.PersistentVolumeClaim) bool {
	return c.rules.has(provisionerOf(claim)) && claim.Spec.VolumeName == "" ||
		slices.Contains(claim.Finalizers, ClaimFinalizer) || c.ofClaims.has(keyOfClaim(claim))
}

// addClaim queues a changed claim. The end of a claim can be the end of the use of its volume.
func (c *Controller) addClaim(change api.Change[*v1.PersistentVolumeClaim]) {
	if claim := change.New; claim != nil && c.concerns(claim) {
		addKey(c.claimPool, keyOfClaim(claim), change.Replay)
	}
	old := change.Old
	if old == nil || change.New != nil && change.New.UID == old.UID {
		return
	}
	if c.ofClaims.has(keyOfClaim(old)) {
		c.claimPool.Add(keyOfClaim(old))
	}
	if name := old.Spec.VolumeName; name != "" {
		c.volumePool.Add(api.Key{Name: name})
	}
	c.volumePool.Add(api.Key{Name: c.config.VolumeName(old)})
	c.queueAwaited(old.UID)
}

// addVolume queues a changed volume, and the claim of a released one that may be late. It also queues the claim of
// a volume that has ended, or that does not refer to the claim any more: the claim may need another volume, and tries
// again until its name is free.
func (c *Controller) addVolume(change api.Change[*v1.PersistentVolume]) {
	addKey(c.volumePool, change.Key(), change.Replay)
	old, pv := change.Old, change.New
	if pv != nil && pv.Status.Phase == v1.VolumeReleased && pv.Spec.ClaimRef != nil && c.ofClaims.has(keyOfReference(pv.Spec.ClaimRef)) {
		c.claimPool.Add(keyOfReference(pv.Spec.ClaimRef))
	}
	if old == nil || old.Spec.ClaimRef == nil || old.Spec.ClaimRef.UID == "" {
		return
	}
	ref, hasEnded := old.Spec.ClaimRef, pv == nil || pv.UID != old.UID
	if hasEnded {
		c.awaited.forget(ref.UID, old.Name)
	}
	if hasEnded || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != ref.UID {
		c.claimPool.Add(keyOfReference(ref))
	}
}

// addClass queues the claims of a changed class, and those without a class if it is a default class.
func (c *Controller) addClass(change api.Change[*storagev1.StorageClass]) {
	if change.Replay {
		return // the claims are queued by their own cache
	}
	for _, claim := range c.claims.Cache().List() {
		name, isSet := storageclass.Named(claim)
		if (name == change.Key().Name || !isSet) && c.concerns(claim) {
			c.claimPool.Add(keyOfClaim(claim))
		}
	}
}

// A queue is a pool as the feed uses it.
type queue[K any] interface {
	Add(K)
	AddReplay(K)
}

func addKey[K any](pool queue[K], key K, isReplay bool) {
	if isReplay {
		pool.AddReplay(key)
		return
	}
	pool.Add(key)
}

package bind

import (
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// addClaim queues a changed claim, and the volumes that it concerned before.
func (c *Controller) addClaim(change api.Change[*v1.PersistentVolumeClaim]) {
	key := change.Key()
	if claim := change.New; claim != nil {
		c.claimants.set(claim)
	} else {
		c.claimants.forget(change.Old)
	}
	add(c.claimPool, key, change.Replay)
	if change.Replay {
		return
	}
	old := change.Old
	if old != nil && (change.New == nil || change.New.UID != old.UID) {
		c.finishing.remove(old.UID)
	}
	if old == nil || change.New != nil && change.New.UID == old.UID && change.New.Spec.VolumeName == old.Spec.VolumeName && change.New.Status.Phase == old.Status.Phase && hasBeenBound(change.New) == hasBeenBound(old) {
		return
	}
	for _, name := range c.index.Referring(key) {
		c.volumePool.Add(api.Key{Name: name})
	}
	if old.Spec.VolumeName != "" {
		if hasBeenBound(old) { // no claim waits for one that was not bound
			c.addClaimants(old.Spec.VolumeName)
		}
		if pv, ok := c.volumes.Cache().Get(api.Key{Name: old.Spec.VolumeName}); ok {
			if pv.Spec.ClaimRef != nil {
				c.claimPool.Add(referenceKey(pv))
			} else {
				c.offer(pv.Name) // waiting claims have rejected it for the changed claim
			}
			c.volumePool.Add(api.KeyOf(pv))
		}
	}
}

// addVolume queues a changed volume, and the claims that it concerns.
func (c *Controller) addVolume(change api.Change[*v1.PersistentVolume]) {
	key := change.Key()
	isAvailable := false
	if change.New != nil {
		isAvailable = c.index.Set(change.New)
	} else {
		c.index.Delete(key.Name)
	}
	if old := change.Old; old != nil && (change.New == nil || change.New.UID != old.UID) {
		c.postponed.forget(old.UID)
	}
	if pv := change.New; pv != nil && !isPending(pv) {
		c.postponed.forget(pv.UID)
	}
	add(c.volumePool, key, change.Replay)
	if isAvailable {
		c.offer(key.Name)
	}
	if change.Replay {
		return
	}
	if old := change.Old; old != nil && old.Spec.ClaimRef != nil {
		c.claimPool.Add(referenceKey(old))
	}
	if pv := change.New; pv != nil && pv.Spec.ClaimRef != nil {
		c.postponed.forget(pv.UID)
		c.claimPool.Add(referenceKey(pv))
	}
	c.addClaimants(key.Name)
}

// addClaimants queues the claims that name a volume.
func (c *Controller) addClaimants(volume string) {
	for _, key := range c.claimants.of(volume) {
		c.claimPool.Add(key)
	}
}

// addClass queues the unbound claims of a changed class, and those without a class if it is a default
// class.
func (c *Controller) addClass(change api.Change[*storagev1.StorageClass]) {
	if change.Replay {
		return // the claims are queued by their own cache
	}
	isDefault := change.New != nil && storageclass.IsDefault(change.New)
	for _, claim := range c.claims.Cache().List() {
		name, isSet := storageclass.Named(claim)
		if !has(claim, BindCompletedAnnotation) && (isSet && name == change.Key().Name || !isSet && isDefault) {
			c.claimPool.Add(api.KeyOf(claim))
		}
	}
}

// referenceKey returns the key of the claim that a volume refers to.
func referenceKey(pv *v1.PersistentVolume) api.Key {
	return api.Key{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
}

func add(pool *workers.Pool[api.Key], key api.Key, isReplay bool) {
	if isReplay {
		pool.AddReplay(key)
		return
	}
	pool.Add(key)
}

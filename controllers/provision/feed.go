package provision

import (
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// subscribe feeds the changes of the caches to the pools.
func (c *Controller) subscribe() error {
	_, stop, err := c.claims.Cache().Subscribe(c.addClaim)
	if err != nil {
		return err
	}
	c.unsubscribe = append(c.unsubscribe, stop)
	_, stop, err = c.volumes.Cache().Subscribe(c.addVolume)
	if err != nil {
		return err
	}
	c.unsubscribe = append(c.unsubscribe, stop)
	_, stop, err = c.classes.Subscribe(c.addClass)
	if err != nil {
		return err
	}
	c.unsubscribe = append(c.unsubscribe, stop)
	return nil
}

func (c *Controller) stopSubscriptions() {
	for _, stop := range c.unsubscribe {
		stop()
	}
}

// concerns reports whether the controller may have a step for a claim.
func (c *Controller) concerns(claim *v1.PersistentVolumeClaim) bool {
	return c.rules.has(provisionerOf(claim)) && (claim.Spec.VolumeName == "" || markOf(claim) != "") ||
		slices.Contains(claim.Finalizers, ClaimFinalizer) || c.ofClaims.has(claim.UID)
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
	if c.ofClaims.has(old.UID) {
		c.claimPool.Add(keyOfClaim(old))
	}
	if name := old.Spec.VolumeName; name != "" {
		c.volumePool.Add(api.Key{Name: name})
	}
	c.volumePool.Add(api.Key{Name: c.config.VolumeName(old)})
	c.queueAwaited(old.UID)
}

// addVolume queues a changed volume, and the claim of one that was deleted: it may need another
// volume. It also queues the claim of a released volume that may be late.
func (c *Controller) addVolume(change api.Change[*v1.PersistentVolume]) {
	addKey(c.volumePool, change.Key(), change.Replay)
	if pv := change.New; pv != nil && pv.Status.Phase == v1.VolumeReleased && pv.Spec.ClaimRef != nil && c.ofClaims.has(pv.Spec.ClaimRef.UID) {
		c.claimPool.Add(keyOfReference(pv.Spec.ClaimRef))
	}
	old := change.Old
	if old == nil || change.New != nil && change.New.UID == old.UID {
		return
	}
	c.ofVolumes.forget(old.UID)
	if ref := old.Spec.ClaimRef; ref != nil {
		c.awaited.forget(ref.UID, old.Name)
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

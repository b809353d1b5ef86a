package bind

import (
	"slices"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/bind/internal/fit"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimants are the claims that name volumes in spec.volumeName, each in its newest known state: a watch may
// deliver a state after the answer to a later write. The zero value is empty.
type claimants struct {
	mu     sync.Mutex
	states map[api.Key]claimState
	claims map[string][]claimant // by the volumes
}

// A claimState is the state of a claim that names a volume.
type claimState struct {
	uid     types.UID
	version string
	volume  string
}

// A claimant is a claim that names a volume. Tenants may name one volume in any number of claims: the bound ones
// are found without a look at the others.
type claimant struct {
	key     api.Key
	isBound bool // has been bound
	isLost  bool
}

// set records a state of a claim, unless it is older than the known one.
func (c *claimants) set(claim *v1.PersistentVolumeClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := api.KeyOf(claim)
	if fit.IsOlder(claim.ResourceVersion, c.states[key].version) {
		return
	}
	now := claimState{claim.UID, claim.ResourceVersion, claim.Spec.VolumeName}
	c.put(now, claimant{key, hasBeenBound(claim), claim.Status.Phase == v1.ClaimLost})
}

// hasBeenBound reports whether a claim has been bound to the volume that it names. A user may have removed the
// annotation; the worker of a claim that is not in deletion writes it again.
func hasBeenBound(claim *v1.PersistentVolumeClaim) bool {
	return has(claim, BindCompletedAnnotation) || claim.DeletionTimestamp != nil && claim.Status.Phase == v1.ClaimBound
}

// put replaces the state of a claim. A claim that names no volume is dropped. The caller holds mu.
func (c *claimants) put(now claimState, of claimant) {
	if c.states[of.key].volume != now.volume {
		c.drop(of.key)
	}
	if now.volume == "" {
		return
	}
	if c.states == nil {
		c.states, c.claims = map[api.Key]claimState{}, map[string][]claimant{}
	}
	c.states[of.key] = now
	all := c.claims[now.volume]
	if i := slices.IndexFunc(all, func(other claimant) bool { return other.key == of.key }); i >= 0 {
		all[i] = of
		return
	}
	c.claims[now.volume] = append(all, of)
}

// forget drops a claim that has ended, unless another claim of its name is known.
func (c *claimants) forget(claim *v1.PersistentVolumeClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key := api.KeyOf(claim); c.states[key].uid == claim.UID {
		c.drop(key)
	}
}

// forgetName drops the claim of a name of which no claim exists.
func (c *claimants) forgetName(key api.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

// drop removes a claim. The caller holds mu.
func (c *claimants) drop(key api.Key) {
	volume := c.states[key].volume
	if volume == "" {
		return
	}
	delete(c.states, key)
	rest := slices.DeleteFunc(c.claims[volume], func(of claimant) bool { return of.key == key })
	if len(rest) == 0 {
		delete(c.claims, volume)
		return
	}
	c.claims[volume] = rest
}

// of returns the claims that name a volume.
func (c *claimants) of(volume string) []api.Key {
	return c.find(volume, func(claimant) bool { return true })
}

// boundTo returns the claims that have been bound to a volume, the Lost ones only with withLost.
func (c *claimants) boundTo(volume string, withLost bool) []api.Key {
	return c.find(volume, func(of claimant) bool { return of.isBound && (withLost || !of.isLost) })
}

// find returns the claims that name a volume and are accepted.
func (c *claimants) find(volume string, accepts func(claimant) bool) (keys []api.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.claims[volume] {
		if accepts(of) {
			keys = append(keys, of.key)
		}
	}
	return keys
}

// woken are the claims that free volumes have woken, until the claims have been handled.
type woken struct {
	mu sync.Mutex
	by map[api.Key][]string
}

func (w *woken) add(claim api.Key, volume string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[api.Key][]string{}
	}
	w.by[claim] = append(w.by[claim], volume)
}

// remove removes a claim and returns the volumes that have woken it.
func (w *woken) remove(claim api.Key) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	volumes := w.by[claim]
	delete(w.by, claim)
	return volumes
}

// offer wakes a waiting claim that a free volume fits.
func (c *Controller) offer(volume string) {
	if claim, ok := c.index.Wake(volume); ok {
		c.woken.add(claim, volume)
		c.claimPool.Add(claim)
	}
}

package bind

import (
	"slices"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
)

// claimants are the claims that name volumes in spec.volumeName. The zero value is empty.
type claimants struct {
	mu      sync.Mutex
	volumes map[api.Key]string // by the claims
	claims  map[string][]api.Key
}

// set records the volume that a claim names.
func (c *claimants) set(claim *v1.PersistentVolumeClaim) {
	c.name(api.KeyOf(claim), claim.Spec.VolumeName)
}

// name records the volume that the claim of a key names; "": none.
func (c *claimants) name(claim api.Key, volume string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.volumes[claim]
	if before == volume {
		return
	}
	if c.volumes == nil {
		c.volumes, c.claims = map[api.Key]string{}, map[string][]api.Key{}
	}
	if before != "" {
		delete(c.volumes, claim)
		c.claims[before] = slices.DeleteFunc(c.claims[before], func(key api.Key) bool { return key == claim })
		if len(c.claims[before]) == 0 {
			delete(c.claims, before)
		}
	}
	if volume != "" {
		c.volumes[claim] = volume
		c.claims[volume] = append(c.claims[volume], claim)
	}
}

// of returns the claims that name a volume.
func (c *claimants) of(volume string) []api.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.claims[volume])
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

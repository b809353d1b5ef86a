package provision

import (
	"context"
	"slices"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// awaited are the released volumes whose claims still exist in the cache: the binder has seen the end of
// the claim first. The claim need not name the volume. The zero value is empty.
type awaited struct {
	mu      sync.Mutex
	volumes map[types.UID][]string // by the claims
}

func (a *awaited) add(claim types.UID, volume string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.volumes == nil {
		a.volumes = map[types.UID][]string{}
	}
	if !slices.Contains(a.volumes[claim], volume) {
		a.volumes[claim] = append(a.volumes[claim], volume)
	}
}

// remove removes a claim and returns its volumes.
func (a *awaited) remove(claim types.UID) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	volumes := a.volumes[claim]
	delete(a.volumes, claim)
	return volumes
}

// forget forgets a volume that does not exist any more.
func (a *awaited) forget(claim types.UID, volume string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rest := slices.DeleteFunc(a.volumes[claim], func(name string) bool { return name == volume })
	if len(rest) == 0 {
		delete(a.volumes, claim)
		return
	}
	a.volumes[claim] = rest
}

// awaitEnd makes the end of a volume's claim in the cache queue the volume.
func (c *Controller) awaitEnd(ctx context.Context, pv *v1.PersistentVolume) error {
	claim := pv.Spec.ClaimRef
	c.awaited.add(claim.UID, pv.Name)
	lives, err := c.claimLives(ctx, claim)
	if err == nil && !lives {
		c.queueAwaited(claim.UID) // the end came before add
	}
	return err
}

// queueAwaited queues the volumes that await the end of a claim.
func (c *Controller) queueAwaited(claim types.UID) {
	for _, name := range c.awaited.remove(claim) {
		c.volumePool.Add(api.Key{Name: name})
	}
}

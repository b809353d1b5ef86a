package bind

import (
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// availablePause is the pause after which a new volume becomes available: a volume that is bound
	// meanwhile needs one write less.
	availablePause = 100 * time.Millisecond
	// mostPostponed is the time after which it becomes available although claims are being bound: a
	// scheduler selects available volumes alone.
	mostPostponed = time.Minute
)

// postponed are new volumes that are not available yet. The zero value is empty.
type postponed struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
	idle  map[api.Key]bool // those that wait for the end of all work on claims
}

// postponeAvailable returns the time until a new volume becomes available, unless all work on claims ends
// before. 0: now.
func (c *Controller) postponeAvailable(key api.Key, pv *v1.PersistentVolume) time.Duration {
	if !isPending(pv) {
		return 0
	}
	now := time.Now()
	since, isNew := c.postponed.begin(pv.UID, now)
	rest := since.Add(mostPostponed).Sub(now)
	switch {
	case isNew:
		return availablePause
	case rest <= 0 || !c.isBusy(): // it stays known until its phase changes: a failed write has its backoff
		return 0
	}
	c.postponed.add(key)
	if !c.isBusy() { // its end has not seen this volume
		c.resumePostponed()
	}
	return rest
}

// isPending reports whether a volume was never available.
func isPending(pv *v1.PersistentVolume) bool {
	return pv.Status.Phase == v1.VolumePending || pv.Status.Phase == ""
}

// resumePostponed queues the volumes that wait for the end of all work.
func (c *Controller) resumePostponed() {
	for _, key := range c.postponed.take() {
		c.volumePool.Add(key)
	}
}

// begin returns the time at which a volume was postponed first, and whether that is now.
func (p *postponed) begin(volume types.UID, now time.Time) (since time.Time, isNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since, ok := p.since[volume]; ok {
		return since, false
	}
	if p.since == nil {
		p.since = map[types.UID]time.Time{}
	}
	p.since[volume] = now
	return now, true
}

func (p *postponed) add(key api.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.idle = map[api.Key]bool{}
	}
	p.idle[key] = true
}

// take returns the volumes that wait for the end of all work, once.
func (p *postponed) take() (keys []api.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.idle {
		keys = append(keys, key)
	}
	p.idle = nil
	return keys
}

// forget forgets a volume that is not postponed any more.
func (p *postponed) forget(volume types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, volume)
}

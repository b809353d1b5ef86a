package provision

import (
	"sync"
	"time"
)

const (
	// mostPostponed is the longest time for which the removal of a finalizer waits for other claims.
	mostPostponed = time.Minute
	// resumedAtOnce is the number of claims whose finalizers are removed when no claim waits: few, so that
	// a new claim comes soon.
	resumedAtOnce = 16
)

// postponed are the claims with a stored volume whose finalizer is removed when no other claim waits for
// a worker: a burst of claims receives its volumes first.
type postponed struct {
	mu     sync.Mutex
	claims map[claimKey]bool
}

func (p *postponed) add(key claimKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claims == nil {
		p.claims = map[claimKey]bool{}
	}
	p.claims[key] = true
}

func (p *postponed) remove(key claimKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.claims, key)
}

func (p *postponed) has(key claimKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claims[key]
}

// removeSome removes some claims and returns them.
func (p *postponed) removeSome() (keys []claimKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.claims {
		if len(keys) == resumedAtOnce {
			break
		}
		delete(p.claims, key)
		keys = append(keys, key)
	}
	return keys
}

// postponeRelease returns the time for which the removal of a claim's finalizer waits, and 0 if the
// finalizer is to be removed now. A removal is postponed once. It is not postponed while claims wait for the
// storage: then it delays no volume, and the other claims may wait for hours.
func (c *Controller) postponeRelease(key claimKey, v claimView, a *claimAttempt, now time.Time) time.Duration {
	isFirst := a.releaseBy.IsZero()
	if isFirst {
		a.releaseBy = now.Add(mostPostponed)
	}
	switch {
	case !v.isStored(), v.claim.DeletionTimestamp != nil, !now.Before(a.releaseBy):
	case isFirst && c.claimPool.Len() > 0 && !c.limiter.isFull():
		c.postponed.add(key)
		return mostPostponed
	case c.postponed.has(key):
		return a.releaseBy.Sub(now)
	}
	c.postponed.remove(key)
	return 0
}

// resumeReleases queues claims whose finalizer is removed now if no other claim waits. It is called at
// the end of each turn, so that a turn follows each postponement.
func (c *Controller) resumeReleases() {
	if c.claimPool.Len() > 0 {
		return
	}
	for _, key := range c.postponed.removeSome() {
		c.claimPool.Add(key)
	}
}

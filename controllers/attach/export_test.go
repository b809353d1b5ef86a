package attach

import "maps"

// Remembered returns the numbers of entries in the memory of the controller that is not empty.
func (c *Controller) Remembered() map[string]int {
	locked := func(lock interface{ Lock() }, unlock func(), count func() int) int {
		lock.Lock()
		defer unlock()
		return count()
	}
	counts := map[string]int{
		"records":   locked(&c.records.mu, c.records.mu.Unlock, func() int { return len(c.records.of) + len(c.records.needs) + len(c.records.users) }),
		"reports":   locked(&c.reports.mu, c.reports.mu.Unlock, func() int { return len(c.reports.of) }),
		"withdrawn": locked(&c.reports.withdrawn.mu, c.reports.withdrawn.mu.Unlock, func() int { return len(c.reports.withdrawn.rows) }),
		"orphans":   locked(&c.orphans.mu, c.orphans.mu.Unlock, func() int { return len(c.orphans.ids) + len(c.orphans.names) }),
		"plugged":   locked(&c.plugged.mu, c.plugged.mu.Unlock, func() int { return len(c.plugged.rows) }),
		"lost":      locked(&c.lost.mu, c.lost.mu.Unlock, func() int { return len(c.lost.rows) }),
		"failures":  locked(&c.failures.mu, c.failures.mu.Unlock, func() int { return len(c.failures.rows) }),
		"waiting":   locked(&c.waiting.mu, c.waiting.mu.Unlock, func() int { return len(c.waiting.rows) }),
		"announced": locked(&c.announced.mu, c.announced.mu.Unlock, func() int { return len(c.announced.last) }),
		"timers":    locked(&c.timers.mu, c.timers.mu.Unlock, func() int { return len(c.timers.rows) }),
	}
	maps.DeleteFunc(counts, func(_ string, count int) bool { return count == 0 })
	return counts
}

package inflight

import "sync/atomic"

// A Lease is a lock with several holders. The last holder to release it unlocks.
type Lease struct {
	holders atomic.Int32
	unlock  func()
}

// NewLease returns a lease with one holder.
func NewLease(unlock func()) *Lease {
	l := &Lease{unlock: unlock}
	l.holders.Store(1)
	return l
}

// Share adds a holder. The caller must be a holder.
func (l *Lease) Share() { l.holders.Add(1) }

// Release removes a holder. Each holder calls it once.
func (l *Lease) Release() {
	if l.holders.Add(-1) == 0 {
		l.unlock()
	}
}

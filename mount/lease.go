package mount

import "sync/atomic"

// A lease keeps a lock for as long as anybody still needs it: the caller, and what
// the kernel holds on the caller's behalf.
type lease struct {
	holders atomic.Int32
	unlock  func()
}

func newLease(unlock func()) *lease {
	l := &lease{unlock: unlock}
	l.holders.Store(1)
	return l
}

func (l *lease) share() { l.holders.Add(1) }

// end is called once by each holder.
func (l *lease) end() {
	if l.holders.Add(-1) == 0 {
		l.unlock()
	}
}

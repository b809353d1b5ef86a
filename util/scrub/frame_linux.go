package scrub

import (
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/util/internal/beneath"
)

// A frame is a directory on the way from the root to where a worker is.
type frame = beneath.Frame[lore]

// A lore is what is known of a directory besides where it is. It is kept when that is
// closed to save descriptors.
type lore struct {
	fate fate

	stuck    atomic.Bool // something in it stays, so it does, too
	removing atomic.Bool // something went in this pass
	passes   int
	idle     int // of them

	lent sync.WaitGroup // directories in it that other workers see to
}

// rewind begins another pass over the directory, unless there were enough.
func rewind(f *frame) bool {
	l := &f.Note
	l.passes++
	if !l.removing.Load() {
		l.idle++
	}
	if l.passes >= maxPasses || l.idle >= idlePasses {
		return false
	}
	l.removing.Store(false)
	return f.Rewind() == nil
}

// learn takes over what another worker has found out about the same directory.
func (l *lore) learn(other *lore) {
	if other.stuck.Load() {
		l.stuck.Store(true)
	}
	if other.removing.Load() {
		l.removing.Store(true)
	}
}

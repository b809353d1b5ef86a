package scrub

import (
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/util/internal/beneath"
)

// A frame is a directory on the way from the root to a worker.
type frame = beneath.Frame[results]

// The results of a walk in a directory are kept while the directory's descriptor is closed to save
// descriptors.
type results struct {
	fate fate

	stuck    atomic.Bool // an entry in it stays, so the directory stays, too
	removing atomic.Bool // this pass has removed an entry
	passes   int
	idle     int // passes that removed nothing

	lent sync.WaitGroup // subdirectories that other workers empty
}

// rewind begins another pass over the directory. It returns false after too many passes.
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

// merge adds the results of another worker in the same directory.
func (l *results) merge(other *results) {
	if other.stuck.Load() {
		l.stuck.Store(true)
	}
	if other.removing.Load() {
		l.removing.Store(true)
	}
}

package scrub

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A frame is a directory on the way from the root to where a worker is.
type frame struct {
	place
	above *frame // nil for the root
	name  string // in above
	fate  fate

	fd     int   // -1 while it is closed to save descriptors
	next   int64 // where to read on
	unread listing

	stuck    atomic.Bool // something in it stays, so it does, too
	removing atomic.Bool // something went in this pass
	passes   int
	idle     int // of them

	lent sync.WaitGroup // directories in it that other workers see to
}

// pathOf is of an entry, from the root.
func (f *frame) pathOf(name string) string {
	parts := []string{name}
	for ; f.above != nil; f = f.above {
		parts = append(parts, f.name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

// close saves the descriptor and the memory, not what has been found out.
func (f *frame) close() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
	}
	f.fd, f.unread = -1, listing{}
}

// rewind begins another pass over the directory, unless there were enough.
func (f *frame) rewind() bool {
	f.passes++
	if !f.removing.Load() {
		f.idle++
	}
	if f.passes >= maxPasses || f.idle >= idlePasses {
		return false
	}
	f.removing.Store(false)
	f.next, f.unread.rest = 0, nil
	_, err := unix.Seek(f.fd, 0, unix.SEEK_SET)
	return err == nil
}

// learn takes over what another worker has found out about the same directory.
func (f *frame) learn(other *frame) {
	if other.stuck.Load() {
		f.stuck.Store(true)
	}
	if other.removing.Load() {
		f.removing.Store(true)
	}
}

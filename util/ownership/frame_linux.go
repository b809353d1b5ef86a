package ownership

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A frame is a directory on the way from the root to where a worker is.
type frame struct {
	place
	above *frame // nil for the root
	name  string // in above

	fd     int   // -1 while it is closed to save descriptors
	next   int64 // where to read on
	unread listing
	// lent: another worker reads on, and what is in unread is all.
	lent bool
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

// close saves the descriptor and the memory.
func (f *frame) close() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
	}
	f.fd, f.unread = -1, listing{}
}

// half is for another worker: the first half of what has been read.
func (f *frame) half() (*frame, error) {
	fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	half := &frame{place: f.place, above: f.above, name: f.name, fd: fd, lent: true}
	half.unread, f.next = f.unread.halve()
	return half, nil
}

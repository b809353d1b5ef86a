package beneath

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Frame is a directory on the way from the root to a worker. Note is the caller's data
// about it.
type Frame[T any] struct {
	Place
	Above *Frame[T] // nil for the root
	Name  string    // in Above
	FD    int       // -1 while it is closed to save descriptors
	Note  T

	Unread Listing
	next   int64            // offset of the next unread entry
	handle *unix.FileHandle // to reopen the directory, or nil
}

// PathOf returns the path of an entry, relative to the root.
func (f *Frame[T]) PathOf(name string) string {
	parts := []string{name}
	for ; f.Above != nil; f = f.Above {
		parts = append(parts, f.Name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

// Refill reads more entries into Unread, and reports whether there were any.
func (f *Frame[T]) Refill() (more bool, err error) { return f.Unread.Refill(f.FD) }

// RefillInOrder is Refill, and sorts the entries by inode as [Order.Sort] does.
func (f *Frame[T]) RefillInOrder(o *Order) (more bool, err error) {
	more, err = f.Refill()
	o.Sort(&f.Unread, f.next)
	return more, err
}

// Take returns the next entry of Unread, and advances the offset: the entry is not read
// again after the directory is reopened.
func (f *Frame[T]) Take() (Entry, bool) {
	e, ok := f.Unread.Take()
	if ok {
		f.next = e.Next
	}
	return e, ok
}

// Rewind restarts reading at the directory's beginning.
func (f *Frame[T]) Rewind() error {
	f.next, f.Unread.rest = 0, nil
	return f.seek(f.FD)
}

func (f *Frame[T]) seek(fd int) error {
	_, err := unix.Seek(fd, f.next, unix.SEEK_SET)
	return err
}

// Duplicate returns the same directory with a descriptor of its own, for another worker, which
// closes it.
func (f *Frame[T]) Duplicate() (*Frame[T], error) {
	fd, err := unix.FcntlInt(uintptr(f.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Frame[T]{Place: f.Place, Above: f.Above, Name: f.Name, FD: fd}, nil
}

// Half is Again, and moves the first half of the unread entries to the new frame.
func (f *Frame[T]) Half() (*Frame[T], error) {
	half, err := f.Duplicate()
	if err == nil {
		half.Unread, f.next = f.Unread.halve()
	}
	return half, err
}

// Close closes the descriptor and frees the buffer.
func (f *Frame[T]) Close() {
	if f.FD >= 0 {
		_ = unix.Close(f.FD)
	}
	f.Unread.Free()
	f.FD = -1
}

package beneath

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Frame is a directory on the way from the root to where a worker is. Its owner knows
// more of it: T.
type Frame[T any] struct {
	Place
	Above *Frame[T] // nil for the root
	Name  string    // in Above
	FD    int       // -1 while it is closed to save descriptors
	Note  T

	Unread Listing
	next   int64 // where to read on
}

// PathOf is of an entry, from the root.
func (f *Frame[T]) PathOf(name string) string {
	parts := []string{name}
	for ; f.Above != nil; f = f.Above {
		parts = append(parts, f.Name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

// Refill reads on, and reports whether there was more.
func (f *Frame[T]) Refill() (more bool, err error) { return f.Unread.Refill(f.FD) }

// RefillInOrder is Refill, in the order of inodes as far as that goes.
func (f *Frame[T]) RefillInOrder(o *Order) (more bool, err error) {
	more, err = f.Refill()
	o.Sort(&f.Unread, f.next)
	return more, err
}

// Take returns the next entry of what has been read. It is not read again after a way
// back up.
func (f *Frame[T]) Take() (Entry, bool) {
	e, ok := f.Unread.Take()
	if ok {
		f.next = e.Next
	}
	return e, ok
}

// Rewind begins with the directory anew.
func (f *Frame[T]) Rewind() error {
	f.next, f.Unread.rest = 0, nil
	return f.seek(f.FD)
}

func (f *Frame[T]) seek(fd int) error {
	_, err := unix.Seek(fd, f.next, unix.SEEK_SET)
	return err
}

// Again is the same directory, for another worker, which closes it.
func (f *Frame[T]) Again() (*Frame[T], error) {
	fd, err := unix.FcntlInt(uintptr(f.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Frame[T]{Place: f.Place, Above: f.Above, Name: f.Name, FD: fd}, nil
}

// Half is Again with the first half of what has been read.
func (f *Frame[T]) Half() (*Frame[T], error) {
	half, err := f.Again()
	if err == nil {
		half.Unread, f.next = f.Unread.halve()
	}
	return half, err
}

// Close saves the descriptor and the memory.
func (f *Frame[T]) Close() {
	if f.FD >= 0 {
		_ = unix.Close(f.FD)
	}
	f.FD, f.Unread = -1, Listing{}
}

package beneath

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	// Window is the number of the deepest directories that stay open.
	Window = 32
	// maxDepth limits the depth, for file systems that simulate endless trees.
	maxDepth = 1_000_000
	// MaxSwaps limits how often an entry may change between a directory and another type
	// while it is opened.
	MaxSwaps = 8
)

// A Stack is the position of one worker in a tree, depth first, without recursion.
//
//	Frames[0]            the worker's root: always open
//	Frames[1:low]        closed, to be reopened by their handles, or through ".."
//	Frames[low:]         open
type Stack[T any] struct {
	Frames    []*Frame[T]
	low       int
	noHandles bool // the file system has no handles, or this process may not open them
}

// NewStack returns a stack of open frames.
func NewStack[T any](frames ...*Frame[T]) Stack[T] {
	return Stack[T]{Frames: frames, low: 1}
}

func (s *Stack[T]) Top() *Frame[T] { return s.Frames[len(s.Frames)-1] }

// IsFull reports whether the stack has reached the largest depth.
func (s *Stack[T]) IsFull() bool { return len(s.Frames) > maxDepth }

// Open iterates over the open frames, beginning at the worker's root.
func (s *Stack[T]) Open(yield func(*Frame[T]) bool) {
	if len(s.Frames) == 0 || !yield(s.Frames[0]) {
		return
	}
	for _, f := range s.Frames[min(s.low, len(s.Frames)):] {
		if !yield(f) {
			return
		}
	}
}

// Push enters a directory, and closes the uppermost open one if too many are open.
func (s *Stack[T]) Push(f *Frame[T]) {
	s.Frames = append(s.Frames, f)
	if len(s.Frames)-s.low > Window {
		s.closeToReopen(s.Frames[s.low])
		s.low++
	}
}

// Pop leaves the directory on top.
func (s *Stack[T]) Pop() {
	s.Top().Close()
	s.Frames = s.Frames[:len(s.Frames)-1]
}

// ErrMoved reports that ".." leads to another directory than the one above.
var ErrMoved = errors.New("a directory was moved meanwhile")

// OpenAbove opens the directory above the top if it is closed, at its next unread entry. On
// an error the directory above cannot be reached.
func (s *Stack[T]) OpenAbove() error {
	i := len(s.Frames) - 2
	if i < 0 || s.Frames[i].FD >= 0 {
		return nil
	}
	fd, err := s.reopen(s.Frames[i])
	if err != nil {
		return err
	}
	s.Frames[i].FD, s.low = fd, i
	return nil
}

// reopen reopens the closed directory above the top. By its handle that costs the same
// at any depth. Through "..", in a mount that does not begin at the root of its file
// system, the kernel walks up to the mount's root each time.
func (s *Stack[T]) reopen(f *Frame[T]) (int, error) {
	if fd, ok := s.openByHandle(f); ok {
		return fd, nil
	}
	fd, err := openAt(s.Top().FD, "..", ToList)
	if errors.Is(err, unix.ENOENT) {
		err = ErrMoved // out of the mount
	}
	if err != nil {
		return -1, err
	}
	if err := f.verifyAndSeek(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openByHandle reopens the frame's directory, wherever it has been moved, as if its
// descriptor had stayed open.
func (s *Stack[T]) openByHandle(f *Frame[T]) (int, bool) {
	if f.handle == nil || s.noHandles {
		return -1, false
	}
	fd, err := RetryInterrupted(func() (int, error) { return unix.OpenByHandleAt(s.Frames[0].FD, *f.handle, ToList) })
	if err != nil {
		s.noHandles = errors.Is(err, unix.EPERM)
		return -1, false
	}
	if err := f.verifyAndSeek(fd); err != nil {
		_ = unix.Close(fd)
		return -1, false
	}
	return fd, true
}

// WithoutHandles disables opening by handle, for tests of unprivileged processes.
var WithoutHandles bool

// closeToReopen closes a frame that will be reopened, and keeps its handle (name_to_handle_at(2)).
func (s *Stack[T]) closeToReopen(f *Frame[T]) {
	if !s.noHandles && !WithoutHandles {
		handle, _, err := unix.NameToHandleAt(f.FD, "", unix.AT_EMPTY_PATH)
		if err == nil {
			f.handle = &handle
		}
		s.noHandles = err != nil
	}
	f.Close()
}

// verifyAndSeek verifies that a descriptor is of the frame's directory, and seeks to the next
// unread entry.
func (f *Frame[T]) verifyAndSeek(fd int) error {
	at, err := Identify(fd)
	if err == nil && at != f.Place {
		err = ErrMoved
	}
	if err != nil {
		return err
	}
	return f.seek(fd)
}

// Drop closes all frames and ends the walk.
func (s *Stack[T]) Drop() {
	for _, f := range s.Frames {
		f.Close()
	}
	s.Frames = nil
}

package beneath

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	// Window is how many of the deepest directories on a way are open.
	Window = 32
	// maxDepth is for file systems that have no end.
	maxDepth = 1_000_000
	// MaxSwaps is how often an entry may turn from a directory to something else and
	// back before it is given up.
	MaxSwaps = 8
)

// A Stack is one worker's way through a tree, depth first, without recursion.
//
//	Frames[0]            where it began: always open
//	Frames[1:low]        closed, to be opened again through ".."
//	Frames[low:]         open
type Stack[T any] struct {
	Frames []*Frame[T]
	low    int
}

// NewStack begins a way, with frames that are open.
func NewStack[T any](frames ...*Frame[T]) Stack[T] {
	return Stack[T]{Frames: frames, low: 1}
}

func (s *Stack[T]) Top() *Frame[T] { return s.Frames[len(s.Frames)-1] }

// IsFull: it is deep enough.
func (s *Stack[T]) IsFull() bool { return len(s.Frames) > maxDepth }

// Open goes through the ones that are open, from where the way began.
func (s *Stack[T]) Open(yield func(*Frame[T]) bool) {
	for i, f := range s.Frames {
		if (i == 0 || i >= s.low) && !yield(f) {
			return
		}
	}
}

// Push goes down into a directory, and closes the uppermost one that is open if there
// are too many.
func (s *Stack[T]) Push(f *Frame[T]) {
	s.Frames = append(s.Frames, f)
	if len(s.Frames)-s.low > Window {
		s.Frames[s.low].Close()
		s.low++
	}
}

// Pop leaves the directory on top.
func (s *Stack[T]) Pop() {
	s.Top().Close()
	s.Frames = s.Frames[:len(s.Frames)-1]
}

// ErrMoved: ".." is not where the way has come from.
var ErrMoved = errors.New("a directory was moved meanwhile")

// OpenAbove sees to it that the directory above the one on top is open, to read on. An
// error means that the way back is lost.
func (s *Stack[T]) OpenAbove() error {
	i := len(s.Frames) - 2
	if i < 0 || s.Frames[i].FD >= 0 {
		return nil
	}
	fd, err := openAt(s.Top().FD, "..", ToList)
	if errors.Is(err, unix.ENOENT) {
		err = ErrMoved // out of what is mounted
	}
	if err != nil {
		return err
	}
	if err := s.Frames[i].isStill(fd); err != nil {
		_ = unix.Close(fd)
		return err
	}
	s.Frames[i].FD, s.low = fd, i
	return nil
}

// isStill looks whether a descriptor is of the directory, and reads on there.
func (f *Frame[T]) isStill(fd int) error {
	at, err := Identify(fd)
	if err == nil && at != f.Place {
		err = ErrMoved
	}
	if err != nil {
		return err
	}
	return f.seek(fd)
}

// Drop ends the way where it is.
func (s *Stack[T]) Drop() {
	for _, f := range s.Frames {
		f.Close()
	}
	s.Frames = nil
}

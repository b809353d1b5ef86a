package mounttest

import (
	"context"
	"errors"
	"slices"

	"github.com/volumekit/volumekit/util/ctxend"
)

// errHangs is met by work that has to ask a file system that does not answer. It
// has changed nothing then.
var errHangs = errors.New("the file system does not answer")

// answered does work alone, as soon as the file systems that it has to ask answer.
func (f *Fake) answered(ctx context.Context, op string, work func() error) error {
	for {
		cleared, err := f.tryWork(op, work)
		if cleared == nil {
			return err
		}
		select {
		case <-cleared:
		case <-ctx.Done():
			f.stopWaiting(cleared)
			return ctxend.Error(ctx)
		}
	}
}

func (f *Fake) stopWaiting(waiter <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiters = slices.DeleteFunc(f.waiters, func(w chan struct{}) bool { return w == waiter })
}

// tryWork does work with the hanging file systems that op meets. If that has to
// wait for one, it returns what tells of its end.
func (f *Fake) tryWork(op string, work func() error) (cleared <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.op = op
	defer func() { f.op = "" }()
	if err := work(); !errors.Is(err, errHangs) {
		return nil, err
	}
	// Made by who waits for it: in a synctest bubble no other channel is known.
	waiter := make(chan struct{})
	f.waiters = append(f.waiters, waiter)
	return waiter, nil
}

// hangs reports whether a file system of the type does not answer, at a mount
// point, to the operation that is under way.
func (f *Fake) hangs(fsType, mountpoint string) bool {
	for _, fault := range f.faults {
		if f.op != "" && fault.Hang && fault.Times != 0 && fault.matches(f.op, mountpoint, fsType) {
			fault.Times--
			return true
		}
	}
	return false
}

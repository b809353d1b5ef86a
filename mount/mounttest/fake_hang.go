package mounttest

import (
	"context"
	"errors"
	"slices"

	"github.com/volumekit/volumekit/util/ctxend"
)

// errHangs ends work that needs an answer of a hanging file system. The work has changed
// nothing.
var errHangs = errors.New("the file system does not answer")

// runAnswered runs work as soon as the file systems that it needs answer.
func (f *Fake) runAnswered(ctx context.Context, op string, work func() error) error {
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
	f.lock()
	defer f.mu.Unlock()
	f.waiters = slices.DeleteFunc(f.waiters, func(w chan struct{}) bool { return w == waiter })
}

// tryWork runs work with the file systems that hang for op. If work needs one of them,
// tryWork returns a channel that is closed when the faults are cleared.
func (f *Fake) tryWork(op string, work func() error) (cleared <-chan struct{}, err error) {
	f.lock()
	defer f.mu.Unlock()
	f.op = op
	defer func() { f.op = "" }()
	if err := work(); !errors.Is(err, errHangs) {
		return nil, err
	}
	// The waiting goroutine creates the channel: a synctest bubble accepts no channel from
	// outside.
	waiter := make(chan struct{})
	f.waiters = append(f.waiters, waiter)
	return waiter, nil
}

// hangs reports whether a file system of the type hangs, at a mount point, for the operation
// in progress.
func (f *Fake) hangs(fsType, mountpoint string) bool {
	for _, fault := range f.faults {
		if f.op != "" && fault.Hang && fault.Times != 0 && fault.matches(f.op, mountpoint, fsType) {
			fault.Times--
			return true
		}
	}
	return false
}

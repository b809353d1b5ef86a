package mounttest

import (
	"context"
	"errors"
)

// errHangs is met by work that has to ask a file system that does not answer. It
// has changed nothing then.
var errHangs = errors.New("the file system does not answer")

// answered does work alone, as soon as the file systems that it has to ask answer.
func (f *Fake) answered(ctx context.Context, op string, work func() error) error {
	for {
		err, cleared := f.tryWork(op, work)
		if !errors.Is(err, errHangs) {
			return err
		}
		select {
		case <-cleared:
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
}

// tryWork does work with the hanging file systems that op meets, and returns what
// tells of their end.
func (f *Fake) tryWork(op string, work func() error) (err error, cleared <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.op = op
	defer func() { f.op = "" }()
	return work(), f.cleared
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

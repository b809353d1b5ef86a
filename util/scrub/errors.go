package scrub

import (
	"fmt"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/internal/beneath"
)

const operation input.Operation = "scrub"

// An InputError names the field of the input that was refused. Nothing was changed.
type InputError = input.Error

// An UnremovableError lists entries that could not be removed. All other entries are
// removed; a directory that stays only because of its content is not counted.
type UnremovableError struct{ beneath.Failures }

// Error names the root, the first entries and the missing privileges.
func (e *UnremovableError) Error() string {
	return e.Describe("scrub", "could not be removed", beneath.ToChange)
}

// A NotEmptyError lists the entries of a root that should be empty.
type NotEmptyError struct {
	Root  string
	Names []string // the first ones, relative to the root, any bytes
	Count int      // of all entries directly in the root, or in its lost+found
}

// Error names the root and the first entries.
func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("scrub %s: %d entries are left%s",
		input.Quote(e.Root), e.Count, beneath.List(e.all, e.Count))
}

func (e *NotEmptyError) all(yield func(string, error) bool) {
	for _, name := range e.Names {
		if !yield(name, nil) {
			return
		}
	}
}

// ErrBusy is the error of a call whose context ends while an earlier call works on the same
// root, perhaps stuck on a file system that does not answer.
var ErrBusy = beneath.ErrBusy

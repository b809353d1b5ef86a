package scrub

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util/internal/beneath"
)

// An InputError says which field of the input is wrong. Nothing was changed.
type InputError struct {
	Field, Value, Reason string
}

func (e *InputError) Error() string {
	return fmt.Sprintf("scrub: %s %s: %s", e.Field, beneath.Quote(e.Value), e.Reason)
}

// An Unremovable is an entry that could not be removed.
type Unremovable struct {
	Path string // relative to the root, any bytes
	Err  error
}

// An UnremovableError says what stays in a root, and why. It is all of its Entries'
// errors to errors.Is and errors.As.
type UnremovableError struct {
	Root    string
	Entries []Unremovable // the first ones
	Count   int           // of all; directories that stay because of what is in them are not counted
}

func (e *UnremovableError) Error() string {
	return fmt.Sprintf("scrub %s: %d entries could not be removed%s",
		beneath.Quote(e.Root), e.Count, beneath.First(e.each, e.Count))
}

// Unwrap returns the entries' errors.
func (e *UnremovableError) Unwrap() []error { return beneath.Errors(e.each) }

func (e *UnremovableError) each(yield func(string, error) bool) {
	for _, entry := range e.Entries {
		if !yield(entry.Path, entry.Err) {
			return
		}
	}
}

// A NotEmptyError says what is in a root that should be empty.
type NotEmptyError struct {
	Root  string
	Names []string // the first ones, relative to the root, any bytes
	Count int      // of all that are right in the root, or in its lost+found
}

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("scrub %s: %d entries are left%s",
		beneath.Quote(e.Root), e.Count, beneath.First(e.each, e.Count))
}

func (e *NotEmptyError) each(yield func(string, error) bool) {
	for _, name := range e.Names {
		if !yield(name, nil) {
			return
		}
	}
}

// ErrBusy: somebody works on the same Root, perhaps what an earlier call left behind in
// a file system that does not answer.
var ErrBusy = errors.New("an earlier call has not ended yet")

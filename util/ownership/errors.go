package ownership

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
	return fmt.Sprintf("ownership: %s %s: %s", e.Field, beneath.Quote(e.Value), e.Reason)
}

// An Unchanged is an entry that is not as asked for.
type Unchanged struct {
	Path string // relative to the directory, any bytes
	Err  error
}

// An UnchangedError says what could not be changed, or looked at. All else is as asked
// for, but for the directory itself. It is all of its Entries' errors to errors.Is
// and errors.As.
type UnchangedError struct {
	Dir     string
	Entries []Unchanged // the first ones
	Count   int         // of all; what is in a directory that cannot be read is not counted
}

func (e *UnchangedError) Error() string {
	return fmt.Sprintf("ownership of %s: %d entries could not be changed%s",
		beneath.Quote(e.Dir), e.Count, beneath.First(e.each, e.Count))
}

// Unwrap returns the entries' errors.
func (e *UnchangedError) Unwrap() []error { return beneath.Errors(e.each) }

func (e *UnchangedError) each(yield func(string, error) bool) {
	for _, entry := range e.Entries {
		if !yield(entry.Path, entry.Err) {
			return
		}
	}
}

// ErrBusy: somebody works on the same directory, perhaps what an earlier call left
// behind in a file system that does not answer.
var ErrBusy = errors.New("an earlier call has not ended yet")

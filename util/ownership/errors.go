package ownership

import (
	"errors"
	"fmt"
	"strings"
)

// named is how many entries an error names.
const named = 20

// An InputError says which field of the input is wrong. Nothing was changed.
type InputError struct {
	Field, Value, Reason string
}

func (e *InputError) Error() string {
	return fmt.Sprintf("ownership: %s %s: %s", e.Field, quote(e.Value), e.Reason)
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
	var b strings.Builder
	fmt.Fprintf(&b, "ownership of %s: %d entries could not be changed", quote(e.Dir), e.Count)
	separator := ":"
	for _, entry := range e.Entries {
		fmt.Fprintf(&b, "%s %s (%v)", separator, quote(entry.Path), entry.Err)
		separator = ","
	}
	if more := e.Count - len(e.Entries); more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// Unwrap returns the entries' errors.
func (e *UnchangedError) Unwrap() []error {
	errs := make([]error, len(e.Entries))
	for i, entry := range e.Entries {
		errs[i] = entry.Err
	}
	return errs
}

// ErrBusy: somebody works on the same directory, perhaps what an earlier call left
// behind in a file system that does not answer.
var ErrBusy = errors.New("an earlier call has not ended yet")

// quote shortens in the middle: both ends of a long path say something.
func quote(s string) string {
	const most = 160
	if len(s) > most {
		return fmt.Sprintf("%q...%q", s[:most/2], s[len(s)-most/2:])
	}
	return fmt.Sprintf("%q", s)
}

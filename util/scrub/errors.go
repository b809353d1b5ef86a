package scrub

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
	return fmt.Sprintf("scrub: %s %s: %s", e.Field, quote(e.Value), e.Reason)
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
	var b strings.Builder
	fmt.Fprintf(&b, "scrub %s: %d entries could not be removed", quote(e.Root), e.Count)
	for i, entry := range e.Entries {
		fmt.Fprintf(&b, "%s %s (%v)", separator(i), quote(entry.Path), entry.Err)
	}
	return b.String() + more(e.Count, len(e.Entries))
}

// Unwrap returns the entries' errors.
func (e *UnremovableError) Unwrap() []error {
	errs := make([]error, len(e.Entries))
	for i, entry := range e.Entries {
		errs[i] = entry.Err
	}
	return errs
}

// A NotEmptyError says what is in a root that should be empty.
type NotEmptyError struct {
	Root  string
	Names []string // the first ones, relative to the root, any bytes
	Count int      // of all that are right in the root, or in its lost+found
}

func (e *NotEmptyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scrub %s: %d entries are left", quote(e.Root), e.Count)
	for i, name := range e.Names {
		fmt.Fprintf(&b, "%s %s", separator(i), quote(name))
	}
	return b.String() + more(e.Count, len(e.Names))
}

// ErrBusy: somebody works on the same Root, perhaps what an earlier call left behind in
// a file system that does not answer.
var ErrBusy = errors.New("an earlier call has not ended yet")

func separator(i int) string {
	if i == 0 {
		return ":"
	}
	return ","
}

func more(count, shown int) string {
	if count <= shown {
		return ""
	}
	return fmt.Sprintf(" and %d more", count-shown)
}

// quote shortens in the middle: both ends of a long path say something.
func quote(s string) string {
	const most = 160
	if len(s) > most {
		return fmt.Sprintf("%q...%q", s[:most/2], s[len(s)-most/2:])
	}
	return fmt.Sprintf("%q", s)
}

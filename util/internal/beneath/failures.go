package beneath

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
)

// ErrBusy is the error of a call whose context ends while an earlier call works on the same
// directory, perhaps stuck on a file system that does not answer.
var ErrBusy = errors.New("an earlier call has not ended")

// MaxEntries is the largest number of entries that an error names.
const MaxEntries = 20

// A Failure is a directory entry that a walk could not handle.
type Failure struct {
	Path string // relative to the root of the walk, any bytes
	Err  error
}

// Failures are the entries that a walk could not handle. The walk handled all others.
// errors.Is and errors.As find the errors of Entries.
type Failures struct {
	Root    string    // the directory, as the caller named it
	Entries []Failure // the first ones
	Count   int       // of all entries that the walk has seen and could not handle
}

// Add counts an entry, and records it if it is one of the first.
func (f *Failures) Add(path string, err error) {
	f.Count++
	if len(f.Entries) < MaxEntries {
		f.Entries = append(f.Entries, Failure{path, err})
	}
}

// Unwrap returns the entries' errors.
func (f *Failures) Unwrap() []error {
	var errs []error
	for _, entry := range f.Entries {
		errs = append(errs, entry.Err)
	}
	return errs
}

// Describe returns the text of an error: the operation, the root, the count with the
// outcome, the first entries, and the privileges that were missing, of which needed avoids EPERM.
func (f *Failures) Describe(operation, outcome string, needed Capabilities) string {
	return fmt.Sprintf("%s %s: %d entries %s%s%s",
		operation, input.Quote(f.Root), f.Count, outcome, List(f.all, f.Count), f.requirements(needed))
}

func (f *Failures) all(yield func(string, error) bool) {
	for _, entry := range f.Entries {
		if !yield(entry.Path, entry.Err) {
			return
		}
	}
}

// List returns the end of a text about count entries: the given entries, each with its
// error if it has one, and the number of the others.
func List(entries iter.Seq2[string, error], count int) string {
	var b strings.Builder
	separator := ":"
	for name, err := range entries {
		fmt.Fprintf(&b, "%s %s", separator, input.Quote(name))
		if err != nil {
			fmt.Fprintf(&b, " (%v)", err)
		}
		separator = ","
		count--
	}
	if count > 0 {
		fmt.Fprintf(&b, " and %d more", count)
	}
	return b.String()
}

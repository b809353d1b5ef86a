package atomicdir

import (
	"fmt"
	"strings"
)

// An InputError says what of the input is wrong. Nothing was changed.
type InputError struct {
	Field, Value, Reason string
}

func (e *InputError) Error() string {
	return fmt.Sprintf("atomicdir: %s %q: %s", e.Field, shorten(e.Value), e.Reason)
}

// A LeftoverError says that the set is in place, as asked, and that something else
// in the directory, of an earlier set or a crash, could not be removed. The next
// Write tries again.
type LeftoverError struct {
	Dir   string
	Names []string // right in Dir, any bytes
	Err   error
}

func (e *LeftoverError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: left are", shorten(e.Dir))
	for i, name := range e.Names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %q", shorten(name))
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

func (e *LeftoverError) Unwrap() error { return e.Err }

// shorten in the middle: both ends of a long name say something.
func shorten(s string) string {
	const most = 160
	if len(s) <= most {
		return s
	}
	return s[:most/2] + "..." + s[len(s)-most/2:]
}

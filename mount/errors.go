package mount

import (
	"errors"
	"fmt"
	"strconv"
)

var (
	// ErrMounted is wrapped by the error of a Mount whose target is a mount point
	// of something else than the request asks for.
	ErrMounted = errors.New("something else is mounted there")

	// ErrUncertain is wrapped by an error after which it is not known what is
	// mounted at the target. Treat it as mounted.
	ErrUncertain = errors.New("what is mounted there now is not known")

	// ErrNotAsRequested is wrapped by the error of a Mount whose result was not
	// what the request asked for. The mount has been undone.
	ErrNotAsRequested = errors.New("the mount is not as requested")
)

// An Error is a failed operation on a mount. It never holds a secret option.
type Error struct {
	Op     string // "mount", "unmount", "is mount point", "mount refs", "list"
	Source string // of a mount
	Target string // the path that the operation was about
	Err    error  // the cause, usually a unix.Errno
}

// Error returns the operation, its object and the cause.
func (e *Error) Error() string {
	switch {
	case e.Target == "":
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	case e.Source == "":
		return fmt.Sprintf("%s %s: %v", e.Op, quote(e.Target), e.Err)
	}
	return fmt.Sprintf("%s %s on %s: %v", e.Op, quote(e.Source), quote(e.Target), e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// An InputError is a request that was refused before anything was changed.
type InputError struct {
	Field  string // the field of the Request: "Target", "Options[2]"
	Value  string // what it held, shortened; for a secret only a placeholder
	Reason string // what is wrong with it
}

// Error names the field, the value and what is wrong with it.
func (e *InputError) Error() string {
	return fmt.Sprintf("%s %s: %s", e.Field, strconv.Quote(e.Value), e.Reason)
}

// inputError shortens value, which anybody may have written.
func inputError(field, value, reason string) *InputError {
	return &InputError{Field: field, Value: shorten(value), Reason: reason}
}

// shorten keeps hostile text from filling a log.
func shorten(s string) string {
	const limit = 128
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}

// quote leaves plain paths as they are and quotes the ones that would confuse a
// reader of the message.
func quote(s string) string {
	for _, r := range s {
		if r <= ' ' || r == '"' || r == '\\' || !strconv.IsPrint(r) {
			return strconv.Quote(shorten(s))
		}
	}
	return shorten(s)
}

package mount

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"
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

	// ErrSubmounts is wrapped by the error of a bind mount whose source has other
	// mounts below it, when the request does not say what to do with them.
	ErrSubmounts = errors.New("something is mounted below the source")

	// ErrNotMounted is wrapped by the error of a remount where nothing is mounted.
	ErrNotMounted = errors.New("nothing is mounted there")

	// ErrStillMounted is wrapped by the error of an Unmount after which the mount
	// table still has the mount that it took for unmounted.
	ErrStillMounted = errors.New("it is still mounted")

	// ErrNotEnded is wrapped by the error of an Unmount that has unmounted the last
	// mount of a file system, when the context ends before the file system does: it
	// may still be writing, to its device or server. Nothing is mounted there any more
	// by it, and it changes no mount any more.
	ErrNotEnded = errors.New("it is unmounted, but its file system has not ended yet")

	// ErrNotAnswering is wrapped by the error of an Unmount that left a busy mount
	// alone whose file system does not answer, because the [UnmountPolicy] goes no
	// further.
	ErrNotAnswering = errors.New("its file system does not answer")

	// ErrClosed is wrapped by the errors of a [Mounter] that has been closed.
	ErrClosed = errors.New("the mounter is closed")

	// ErrBusy, ErrReadOnly and ErrCorrupted are classes of causes: errors.Is finds
	// them in every [*Error] whose cause is one of their error numbers. ErrCorrupted
	// is what [IsCorrupted] reports.
	ErrBusy      = errors.New("the mount is in use")
	ErrReadOnly  = errors.New("the file system or device is read-only")
	ErrCorrupted = errors.New("what is mounted is gone or does not answer")
)

// An Error is a failed operation on a mount. It never holds a secret option.
type Error struct {
	Op     string // "mount", "unmount", "unmount tree", "isolate", "is mount point", "mount refs", "mounts from", "resolve", "list", "watch"
	Source string // of a mount
	Target string // the path that the operation was about
	Err    error  // the cause, usually a unix.Errno
}

// Error returns the operation, its object and the cause.
func (e *Error) Error() string {
	switch {
	case e.Source == "" && e.Target == "":
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	case e.Target == "":
		return fmt.Sprintf("%s %s: %v", e.Op, quote(e.Source), e.Err)
	case e.Source == "":
		return fmt.Sprintf("%s %s: %v", e.Op, quote(e.Target), e.Err)
	}
	return fmt.Sprintf("%s %s on %s: %v", e.Op, quote(e.Source), quote(e.Target), e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether the cause is of the class target: [ErrBusy], [ErrReadOnly] or
// [ErrCorrupted].
func (e *Error) Is(target error) bool {
	switch target { //nolint:errorlint // it is asked about these very values
	case ErrBusy:
		return errors.Is(e.Err, syscall.EBUSY)
	case ErrReadOnly:
		return errors.Is(e.Err, syscall.EROFS)
	case ErrCorrupted:
		return IsCorrupted(e.Err)
	}
	return false
}

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
	const limit = 256 // the directory of a volume fits
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

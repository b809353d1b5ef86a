package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/text"
)

var (
	// ErrMounted is wrapped by the error of a Mount whose target is the mount point of
	// another mount than the requested one.
	ErrMounted = failure.ErrMounted

	// ErrUncertain is wrapped by an error after which the mount at the target may or may not
	// exist. Treat the target as mounted. See [AsUncertain].
	ErrUncertain = failure.ErrUncertain

	// ErrNotAsRequested is wrapped by the error of a Mount whose result differed from the
	// request. Mount has unmounted it.
	ErrNotAsRequested = failure.ErrNotAsRequested

	// ErrSubmounts is wrapped by the error of a bind mount whose source has other mounts
	// below it, if the request refuses such sources ([RefuseSubmounts]).
	ErrSubmounts = failure.ErrSubmounts

	// ErrUnknownFSType is wrapped by the error of a Mount of a file system type that the
	// kernel lacks. A retry fails until the type's module is installed.
	ErrUnknownFSType = failure.ErrUnknownFSType

	// ErrNotMounted is wrapped by the error of a remount whose target is no mount point.
	ErrNotMounted = failure.ErrNotMounted

	// ErrStillMounted is wrapped by the error of an Unmount that the kernel reported as
	// successful, although the mount is still in the mount table.
	ErrStillMounted = failure.ErrStillMounted

	// ErrNotEnded is wrapped by the error of an Unmount that has unmounted the last mount of
	// a file system, if the context ends before the file system: it may still write to its
	// device or server. The mount has left the mount table, and Unmount changes no mount any
	// more.
	ErrNotEnded = failure.ErrNotEnded

	// ErrNotAnswering is wrapped by the error of an Unmount after which a busy mount stays,
	// whose file system does not answer, because the [UnmountPolicy] permits no further step.
	ErrNotAnswering = failure.ErrNotAnswering

	// ErrClosed is wrapped by the errors of a [Mounter] that has been closed.
	ErrClosed = errors.New("the mounter is closed")

	// ErrBusy, ErrReadOnly and ErrCorrupted are classes of causes: errors.Is finds them in
	// every [*Error] whose cause is one of their error numbers. [IsCorrupted] reports
	// ErrCorrupted.
	ErrBusy      = errors.New("the mount is in use")
	ErrReadOnly  = errors.New("the file system or device is read-only")
	ErrCorrupted = errors.New("the file system of the mount no longer works")
)

// AsUncertain returns an error that wraps err and [ErrUncertain], with the text of err, for
// implementations of [Interface]. Nil stays nil.
func AsUncertain(err error) error { return failure.AsUncertain(err) }

// An Error is a failed operation on a mount. It never holds a secret option.
type Error struct {
	Op     string // "mount", "unmount", "unmount tree", "isolate", "is mount point", "mount refs", "mounts from", "resolve", "list", "watch"
	Source string // of a mount
	Target string // the path of the operation
	Err    error  // the cause, usually a unix.Errno
}

// Error returns the operation, its object and the cause.
func (e *Error) Error() string {
	cause := brief.Of(e.Err)
	switch {
	case e.Source == "" && e.Target == "":
		return fmt.Sprintf("%s: %v", e.Op, cause)
	case e.Target == "":
		return fmt.Sprintf("%s %s: %v", e.Op, text.Quote(e.Source), cause)
	case e.Source == "":
		return fmt.Sprintf("%s %s: %v", e.Op, text.Quote(e.Target), cause)
	}
	return fmt.Sprintf("%s %s on %s: %v", e.Op, text.Quote(e.Source), text.Quote(e.Target), cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether the cause is of the class target: [ErrBusy], [ErrReadOnly] or
// [ErrCorrupted].
func (e *Error) Is(target error) bool {
	switch target { //nolint:errorlint // target is one of these values
	case ErrBusy:
		return errors.Is(e.Err, syscall.EBUSY)
	case ErrReadOnly:
		return errors.Is(e.Err, syscall.EROFS)
	case ErrCorrupted:
		return IsCorrupted(e.Err)
	}
	return false
}

// A privilegeError is a permission error of the kernel with the missing privilege.
type privilegeError struct {
	missing string
	err     error
}

// Error begins with the missing privilege.
func (e *privilegeError) Error() string { return "requires " + e.missing + ": " + e.err.Error() }

// Unwrap returns the kernel's error.
func (e *privilegeError) Unwrap() error { return e.err }

// withPrivilege adds the missing privilege to a permission error of the kernel.
func withPrivilege(err error) error {
	if !errors.Is(err, fs.ErrPermission) || errors.As(err, new(*privilegeError)) || errors.Is(err, failure.ErrUnsafeDirectory) {
		return err
	}
	missing := missingPrivilege(err)
	if missing == "" {
		return err
	}
	return &privilegeError{missing, err}
}

// A FlagsError is the error of a Mount whose target is the mount point of the requested
// directory, file or file system with other flags. It wraps [ErrMounted]. A request with
// Remount changes the flags of that mount.
type FlagsError struct {
	Have Flags // of the existing mount
	Want Flags // of the request
}

// Error names the flags of both.
func (e *FlagsError) Error() string {
	return (&options.FlagsError{Have: options.Flags(e.Have), Want: options.Flags(e.Want)}).Error()
}

// Unwrap returns [ErrMounted].
func (e *FlagsError) Unwrap() error { return ErrMounted }

// An InputError is a request that was refused before any change.
type InputError struct {
	Op     string // as Op of [Error]; empty: [Request.Parse]
	Field  string // the field of the Request: "Target", "Options[2]"
	Value  string // of the field, shortened; of a secret a placeholder
	Reason string // of the refusal
}

// Error names the field, the value and the reason.
func (e *InputError) Error() string { return (*failure.InputError)(e).Error() }

// publicInputError returns an error of the rooms below about a field of the input as an
// [*InputError] of the operation. It returns other errors unchanged.
func publicInputError(op string, err error) error {
	var input *failure.InputError
	if !errors.As(err, &input) {
		return err
	}
	public := InputError(*input)
	public.Op = op
	return &public
}

// inputError returns an InputError with the untrusted value shortened.
func inputError(field, value, reason string) *InputError {
	return (*InputError)(failure.NewInputError(field, value, reason))
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoPluginMatched is wrapped by the error of a lookup that found no plugin.
	ErrNoPluginMatched = errors.New("no volume plugin matched")

	// ErrNotSupported is wrapped by the error of a call that this volume or plugin cannot
	// carry out. The same call fails again.
	ErrNotSupported = errors.New("not supported")

	// ErrNotMounted is wrapped by the error of a call for a volume that is not set up.
	ErrNotMounted = errors.New("volume is not mounted")

	// ErrAlreadyMounted is wrapped by the error of a SetUp for a path at which the
	// volume is set up with other arguments (read-only, mount options), or another file
	// system is mounted. The mount stays. The same call fails again until TearDown.
	ErrAlreadyMounted = errors.New("the path has another mount, or the volume is mounted with other arguments")

	// ErrTransient is wrapped by an error after which nothing has changed; the
	// same call may succeed later. See [AsTransient].
	ErrTransient = errors.New("transient")

	// ErrUncertain is wrapped by an error after which something may have changed:
	// treat the volume as mounted. An error that wraps neither this nor
	// [ErrTransient] is final: nothing has changed, and the same call fails again. See
	// [AsUncertain].
	ErrUncertain = errors.New("uncertain")

	// ErrInfeasible is wrapped by the final error of a request that the storage can never
	// fulfil, such as an invalid class parameter or a size that no storage has. The caller
	// retries rarely, and at once when the request or its class changes.
	ErrInfeasible = errors.New("infeasible")

	// ErrFailedPrecondition is wrapped by the error of a call that the state of the volume
	// does not permit, such as an expansion while the volume is in use. The error is
	// transient: the caller retries when that state has changed.
	ErrFailedPrecondition error = &transientError{"failed precondition"}
)

// AsTransient returns an error that wraps err and [ErrTransient], with the text of err. Nil
// stays nil.
func AsTransient(err error) error { return withKind(err, ErrTransient) }

// AsUncertain returns an error that wraps err and [ErrUncertain], with the text of err. Nil
// stays nil.
func AsUncertain(err error) error { return withKind(err, ErrUncertain) }

func withKind(err, kind error) error {
	if err == nil {
		return nil
	}
	return &kindError{err, kind}
}

// A kindError adds a kind to an error and leaves its text as it is.
type kindError struct{ err, kind error }

func (e *kindError) Error() string { return e.err.Error() }

func (e *kindError) Unwrap() []error { return []error{e.err, e.kind} }

// A transientError is a cause that is transient by its meaning. Its text does not repeat
// that of [ErrTransient].
type transientError struct{ text string }

func (e *transientError) Error() string { return e.text }

func (e *transientError) Unwrap() error { return ErrTransient }

// An ErrorKind is the condition of a volume after an operation.
type ErrorKind int

// The kinds, from the best to the worst for the caller.
const (
	Success   ErrorKind = iota // no error
	Transient                  // nothing has changed, the same call may succeed later
	Final                      // nothing has changed, the same call fails again
	Uncertain                  // something may have changed: treat the volume as mounted
)

var kindNames = [...]string{"success", "transient", "final", "uncertain"}

// String returns the kind in one word.
func (k ErrorKind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown kind of error"
	}
	return kindNames[k]
}

// KindOf returns the kind of an error of this module. An error that wraps both
// [ErrUncertain] and [ErrTransient], such as one joined from several errors, is
// uncertain. The error of an ended context is transient, unless it is
// uncertain: with more time the same call may succeed.
func KindOf(err error) ErrorKind {
	switch {
	case err == nil:
		return Success
	case errors.Is(err, ErrUncertain):
		return Uncertain
	case errors.Is(err, ErrTransient), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded):
		return Transient
	}
	return Final
}

// MultiplePluginsError is the error of a lookup that more than one plugin matches.
type MultiplePluginsError struct {
	Names []string // of the plugins, sorted
}

// Error names the plugins.
func (e *MultiplePluginsError) Error() string {
	return fmt.Sprintf("multiple volume plugins matched: %s", strings.Join(e.Names, ", "))
}

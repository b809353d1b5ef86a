package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoPluginMatched is wrapped by the error of a lookup that found nothing.
	ErrNoPluginMatched = errors.New("no volume plugin matched")

	// ErrNotSupported is wrapped by the error of a call for something that this
	// volume or plugin cannot do. Trying again does not help.
	ErrNotSupported = errors.New("not supported")

	// ErrNotMounted is wrapped by the error of a call about a volume that is up,
	// when it is not.
	ErrNotMounted = errors.New("volume is not mounted")

	// ErrAlreadyMounted is wrapped by the error of a SetUp for a path at which the
	// volume is up in another way (read-only, other options), or something else
	// is. It stays as it is. Trying again does not help: tear it down first.
	ErrAlreadyMounted = errors.New("the volume, or something else, is mounted there in another way")

	// ErrTransient is wrapped by an error after which nothing has changed; the
	// same call may succeed later.
	ErrTransient = errors.New("nothing has changed, try again")

	// ErrUncertain is wrapped by an error after which something may have changed:
	// treat the volume as mounted. An error that wraps neither this nor
	// [ErrTransient] is final: nothing has changed, and the same call fails again.
	ErrUncertain = errors.New("what has changed is not known")
)

// An ErrorKind is what is true of a volume after an operation.
type ErrorKind int

// The kinds, from the best to the worst for who has to go on from there.
const (
	Success   ErrorKind = iota // no error: the volume is as asked
	Transient                  // nothing has changed, try again
	Final                      // nothing has changed, trying again does not help
	Uncertain                  // something may have changed: treat it as mounted
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
// [ErrUncertain] and [ErrTransient], such as one joined from several, is
// uncertain. The error of a context that ended is transient, unless it is
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

// MultiplePluginsError is a lookup that more than one plugin answers to.
type MultiplePluginsError struct {
	Names []string // of the plugins, sorted
}

// Error names the plugins.
func (e *MultiplePluginsError) Error() string {
	return fmt.Sprintf("multiple volume plugins matched: %s", strings.Join(e.Names, ", "))
}

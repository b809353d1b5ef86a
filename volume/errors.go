package volume

import (
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

	// ErrTransient is wrapped by an error after which nothing has changed; the
	// same call may succeed later.
	ErrTransient = errors.New("nothing has changed, try again")

	// ErrUncertain is wrapped by an error after which something may have changed:
	// treat the volume as mounted. An error that wraps neither this nor
	// [ErrTransient] is final: nothing has changed, and the same call fails again.
	ErrUncertain = errors.New("what has changed is not known")
)

// MultiplePluginsError is a lookup that more than one plugin answers to.
type MultiplePluginsError struct {
	Names []string // of the plugins, sorted
}

// Error names the plugins.
func (e *MultiplePluginsError) Error() string {
	return fmt.Sprintf("multiple volume plugins matched: %s", strings.Join(e.Names, ", "))
}

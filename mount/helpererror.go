package mount

import (
	"errors"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/helper"
	"github.com/volumekit/volumekit/mount/internal/options"
)

// A HelperError is the failure of a program mount.TYPE, or its absence (exec.ErrNotFound).
type HelperError struct {
	Helper string // path, or the name of a missing program
	Output string // of the program, shortened, without secrets
	Err    error  // the cause: an *exec.ExitError, exec.ErrNotFound, the cause of a context
}

// Error names the program, the cause and the output.
func (e *HelperError) Error() string { return (*helper.Error)(e).Error() }

// Unwrap returns the cause.
func (e *HelperError) Unwrap() error { return e.Err }

// publicError lets errors.As find a [*HelperError], [*InputError] or [*FlagsError] in an error
// of the rooms below.
func publicError(err error) error {
	if errors.As(err, new(*helper.Error)) || errors.As(err, new(*failure.InputError)) || errors.As(err, new(*options.FlagsError)) {
		return &convertedError{err}
	}
	return err
}

// A convertedError shows errors of the rooms below as the types of this package.
type convertedError struct{ err error }

// Error returns the text of the error below.
func (e *convertedError) Error() string { return e.err.Error() }

// Unwrap returns the error below.
func (e *convertedError) Unwrap() error { return e.err }

// As sets target to the public form of an error below.
func (e *convertedError) As(target any) bool {
	switch target := target.(type) {
	case **HelperError:
		var internal *helper.Error
		if errors.As(e.err, &internal) {
			*target = (*HelperError)(internal)
			return true
		}
	case **InputError:
		var internal *failure.InputError
		if errors.As(e.err, &internal) {
			*target = (*InputError)(internal)
			return true
		}
	case **FlagsError:
		var internal *options.FlagsError
		if errors.As(e.err, &internal) {
			*target = &FlagsError{Have: Flags(internal.Have), Want: Flags(internal.Want)}
			return true
		}
	}
	return false
}

// helpers returns the helpers of the configuration.
func (c Config) helpers() helper.Catalog {
	catalog := helper.Catalog{Dirs: c.Helpers}
	for name, t := range c.HelperTypes {
		if catalog.Types == nil {
			catalog.Types = map[string]helper.Type{}
		}
		catalog.Types[name] = helper.Type(t)
	}
	return catalog
}

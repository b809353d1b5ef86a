package options

import (
	"fmt"

	"github.com/volumekit/volumekit/mount/internal/failure"
)

// A FlagsError is the error of a Mount whose target has the requested mount with other flags.
type FlagsError struct{ Have, Want Flags }

// Error names the flags of both.
func (e *FlagsError) Error() string {
	return fmt.Sprintf("%v: the existing mount is %v, not %v", failure.ErrMounted, e.Have, e.Want)
}

// Unwrap returns ErrMounted.
func (e *FlagsError) Unwrap() error { return failure.ErrMounted }

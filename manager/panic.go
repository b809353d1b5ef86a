package manager

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/volumekit/volumekit/volume"
)

// A panicError is a panic of a plugin, or of the source, and where it was.
type panicError struct {
	error
	stack string
}

func (e *panicError) Unwrap() error { return e.error }

// recovered turns a panic of a plugin, or of the source, into an error after which nothing is known.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: a plugin, or the source, panicked: %v", volume.ErrUncertain, r)
		*err = &panicError{*err, string(debug.Stack())}
	}
}

// logged returns an error for the log; of a panic with its stack, which is told nowhere else.
func logged(err error) []any {
	var panicked *panicError
	if errors.As(err, &panicked) {
		return []any{"err", err, "stack", panicked.stack}
	}
	return []any{"err", err}
}

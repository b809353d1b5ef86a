package plugincall

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
)

// A panicError is a panic of a plugin or of the source, with its stack.
type panicError struct {
	error
	stack string
}

func (e *panicError) Unwrap() error { return e.error }

// RecoverPanic turns a panic of a plugin or of the source into an uncertain error.
func RecoverPanic(err *error) {
	if r := recover(); r != nil {
		stack := debug.Stack()
		if elsewhere, ok := r.(*ctxend.Panic); ok {
			r, stack = elsewhere.Value, elsewhere.Stack
		}
		*err = volume.AsUncertain(fmt.Errorf("a plugin, or the source, panicked: %v", r))
		*err = &panicError{*err, string(stack)}
	}
}

// LogAttrs returns the log attributes of an error; the stack of a panic is only in the log.
func LogAttrs(err error) []any {
	var panicked *panicError
	if errors.As(err, &panicked) {
		return []any{"err", err, "stack", panicked.stack}
	}
	return []any{"err", err}
}

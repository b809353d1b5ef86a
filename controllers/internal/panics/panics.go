// Package panics turns a panic of an author's code into an error.
package panics

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
)

// AsUncertain sets err to an uncertain error after a panic: the call may have taken effect. It logs the panic with its
// stack and the attributes, unless logger is nil. Defer it directly: recover has no effect in a function further down.
func AsUncertain(err *error, logger *slog.Logger, attributes ...any) {
	r := recover()
	if r == nil {
		return
	}
	if logger != nil {
		logger.Error("panic", append(attributes, "panic", r, "stack", string(debug.Stack()))...)
	}
	*err = volume.AsUncertain(fmt.Errorf("panic: %s", brief.Text(fmt.Sprint(r))))
}

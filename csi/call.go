package csi

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
)

// exclusively calls the driver as the only call in flight for the volume. An error before the call is
// transient.
func (p *Plugin) exclusively(ctx context.Context, driver, handle string, call func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	unlock, err := p.calls.Lock(ctx, volumeName(driver, handle))
	if err != nil {
		return volume.AsTransient(fmt.Errorf("waiting for another call of driver %s for the volume: %w", driver, err))
	}
	defer unlock()
	return call(ctx)
}

// A harmlessError is the error of a call that changes no volume: it is transient, also if its outcome
// is unknown.
type harmlessError struct{ err error }

func (e *harmlessError) Error() string { return e.err.Error() }

// Is reports whether the error is transient, or wraps an error other than [volume.ErrUncertain].
func (e *harmlessError) Is(target error) bool {
	return target == volume.ErrTransient || target != volume.ErrUncertain && errors.Is(e.err, target)
}

// As finds errors that the error wraps.
func (e *harmlessError) As(target any) bool { return errors.As(e.err, target) }

// hasCode reports whether a driver has answered with a code.
func hasCode(err error, code codes.Code) bool {
	var call *connection.CallError
	return errors.As(err, &call) && call.Code == code
}

// upError returns the error of a call that stages or publishes a volume. A volume that is up with other
// arguments is volume.ErrAlreadyMounted.
func upError(err error) error {
	if volume.KindOf(err) == volume.Final && hasCode(err, codes.AlreadyExists) {
		return fmt.Errorf("%w: %w", volume.ErrAlreadyMounted, err)
	}
	return err
}

// downError returns the error of a call that unstages or unpublishes a volume: it is transient unless
// it is uncertain, since the caller repeats the call until it succeeds.
func downError(err error) error {
	if volume.KindOf(err) == volume.Final {
		return volume.AsTransient(err)
	}
	return err
}

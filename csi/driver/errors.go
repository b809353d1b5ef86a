package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A codedError is an error with the code of its status, independent of its cause.
type codedError struct {
	code codes.Code
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }

func (e *codedError) Unwrap() error { return e.err }

// coded returns err with a code. Nil stays nil.
func coded(code codes.Code, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code, err}
}

func codedf(code codes.Code, format string, args ...any) error {
	return &codedError{code, fmt.Errorf(format, args...)}
}

// codeOf returns the code of an error of the driver or of a plugin. The table is in the package
// documentation.
func codeOf(err error) codes.Code {
	kind, c := volume.KindOf(err), (*codedError)(nil)
	switch {
	case err == nil:
		return codes.OK
	case kind != volume.Uncertain && errors.As(err, &c):
		return c.code
	case errors.Is(err, context.DeadlineExceeded) && kind != volume.Final:
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled) && kind != volume.Final:
		return codes.Canceled
	case kind == volume.Uncertain:
		return codes.Aborted
	case errors.Is(err, volume.ErrMaxVolumeCountExceeded):
		return codes.ResourceExhausted
	case errors.Is(err, volume.ErrFailedPrecondition), errors.As(err, new(*volume.DanglingAttachError)):
		return codes.FailedPrecondition
	case kind == volume.Transient:
		return codes.Unavailable
	}
	return finalCode(err)
}

// finalCode returns the code of an error after which nothing has changed, and the same call fails
// again.
func finalCode(err error) codes.Code {
	switch {
	case errors.Is(err, volume.ErrAlreadyMounted):
		return codes.AlreadyExists
	case errors.Is(err, volume.ErrReschedule):
		return codes.ResourceExhausted
	case errors.Is(err, volume.ErrInfeasible) && isOfSize(err):
		return codes.OutOfRange
	case errors.Is(err, volume.ErrInfeasible), errors.Is(err, volume.ErrNotSupported),
		errors.As(err, new(*field.Error)), errors.As(err, new(*mount.InputError)):
		return codes.InvalidArgument
	case errors.Is(err, volume.ErrNotMounted), volume.IsNotFound(err):
		return codes.NotFound
	case errors.As(err, new(*volume.IgnoredError)):
		return codes.FailedPrecondition
	}
	return codes.Internal
}

// isOfSize reports whether an error refuses the requested size.
func isOfSize(err error) bool {
	refused := (*field.Error)(nil)
	return errors.As(err, &refused) && strings.Contains(refused.Field, "requests")
}

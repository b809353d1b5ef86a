package connection

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volumekit/volumekit/csi/internal/redact"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
)

// A CallError is the error of a call of a driver. [volume.KindOf] returns its kind:
//
//   - Transient: the call is unsent, as the driver cannot be reached. The error wraps the cause.
//   - Uncertain: the driver may have acted, or may act yet: it answered with Canceled,
//     DeadlineExceeded, Unavailable, ResourceExhausted or Aborted, or the connection or the
//     context ended before it answered. So is an answer that cannot be received or decoded, as
//     one of more than [MaxMessage] bytes. Its code is Internal.
//   - Final: the driver answered with another code, or the request cannot be encoded.
//
// The error wraps ctx's error if ctx has ended. No field contains a secret of the request.
type CallError struct {
	Driver  string     // name, or the endpoint
	Method  string     // such as "NodePublishVolume"
	Code    codes.Code // of the driver, or of gRPC
	Message string     // of the driver or of gRPC: one line of at most 1 KiB of valid UTF-8

	causes []error // the kind, and the causes of an unsent call or an ended context
}

func (c *call) newError(err error) *CallError {
	// An error of gRPC that is no status has code Unknown.
	s := status.Convert(err)
	text := oneline.Of(strings.ToValidUTF8(s.Message(), "\uFFFD"))
	return &CallError{
		Driver:  brief.Name(oneline.Of(strings.ToValidUTF8(c.driver, "\uFFFD"))),
		Method:  path.Base(c.method),
		Code:    s.Code(),
		Message: brief.Text(redaction.Text(text, redact.Secrets(c.request))),
	}
}

func (e *CallError) setUncertain(ctx context.Context) {
	e.causes = append(e.causes, volume.ErrUncertain)
	e.addEnd(ctx)
}

func (e *CallError) setTransient(ctx context.Context, err error) {
	e.causes = append(e.causes, volume.ErrTransient)
	if _, isStatus := status.FromError(err); !isStatus {
		e.causes = append(e.causes, err)
	}
	e.addEnd(ctx)
}

// addEnd adds the error of an ended context. A driver's own DeadlineExceeded is not that of ctx. The timer of
// ctx can be later than its deadline, by which gRPC refuses a call.
func (e *CallError) addEnd(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	switch {
	case ctx.Err() != nil:
		e.causes = append(e.causes, ctxend.Error(ctx))
	case ok && !time.Now().Before(deadline):
		e.causes = append(e.causes, context.DeadlineExceeded)
	}
}

// Error returns method, driver, code and message.
func (e *CallError) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", e.Method, e.Driver, e.Code, e.Message)
}

// Unwrap returns the kind, and the causes of an unsent call or an ended context.
func (e *CallError) Unwrap() []error { return e.causes }

// GRPCStatus returns code and message: status.Code and its like use it.
func (e *CallError) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

// ExpansionError adds the cause to an error of ControllerExpandVolume or NodeExpandVolume: after
// InvalidArgument, OutOfRange and NotFound no repetition of the call can succeed ([volume.ErrInfeasible]);
// FailedPrecondition is the answer for a volume in use ([volume.ErrFailedPrecondition]).
func ExpansionError(err error) error {
	switch {
	case volume.KindOf(err) == volume.Uncertain:
		return err
	case hasCode(err, codes.FailedPrecondition):
		return fmt.Errorf("%w: %w", volume.ErrFailedPrecondition, err)
	case hasCode(err, codes.InvalidArgument, codes.OutOfRange, codes.NotFound):
		return fmt.Errorf("%w: %w", volume.ErrInfeasible, err)
	}
	return err
}

// ModificationError adds the cause to an error of ControllerModifyVolume: after InvalidArgument no repetition of
// the call can succeed ([volume.ErrInfeasible]).
func ModificationError(err error) error {
	if volume.KindOf(err) != volume.Uncertain && hasCode(err, codes.InvalidArgument) {
		return fmt.Errorf("%w: %w", volume.ErrInfeasible, err)
	}
	return err
}

func hasCode(err error, wanted ...codes.Code) bool {
	var failed *CallError
	if !errors.As(err, &failed) {
		return false
	}
	for _, code := range wanted {
		if failed.Code == code {
			return true
		}
	}
	return false
}

package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
)

// The causes of a [CallError], and of transient errors before a call.
var (
	// ErrNoDriver is wrapped by the error of a driver that is not installed. It is transient, also in errors.Is.
	ErrNoDriver = errors.New("the driver is not installed")
	// ErrUntrusted is wrapped by the transient error of a driver that others than root may write, or whose
	// path has a symbolic link. It does not run.
	ErrUntrusted = errors.New("the driver is not under root's control alone")
	// ErrFailed is wrapped by the error of a call whose answer is a failure.
	ErrFailed = errors.New("the driver reports a failure")
	// ErrBadAnswer is wrapped by the error of a call whose output is no answer, too long, or has an impossible value.
	ErrBadAnswer = errors.New("no valid answer")
	// ErrTimeout is wrapped by the error of a call that did not end in time.
	ErrTimeout = errors.New("the driver was killed at the deadline of its call")

	errNotSupported = errors.New("the driver does not support the operation")
	errEarlierCall  = errors.New("an earlier call of the driver has not ended")
)

// A CallError is a failed call of a driver.
type CallError struct {
	Driver    string
	Operation string // such as "mount"
	Message   string // of the driver, or its output: one short line without Secret values
	Err       error  // the cause

	notStarted bool
}

// Error names the call, the cause and the message.
func (e *CallError) Error() string {
	text := fmt.Sprintf("driver %s: %s: %v", e.Driver, e.Operation, e.Err)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// A call is one execution of a driver.
type call struct {
	operation string
	key       string // calls with the same key are made one after the other: a volume, or a directory
	args      []string
	secrets   []string // values that no error has
	hidden    bool     // no error has the driver's output, which may contain unknown Secret values
	waits     bool     // its deadline is at least waitTimeout
}

// maxArgument is the largest length of an argument of a program: MAX_ARG_STRLEN of Linux, without the NUL.
const maxArgument = 32*4096 - 1

// call calls the driver. If the driver does not support the operation the error is errNotSupported: nothing has changed.
// Every other error is a *CallError, without a kind.
func (p *Plugin) call(ctx context.Context, d *installed, c call) (answer, error) {
	if d.isUnsupported(c.operation) {
		return answer{}, errNotSupported
	}
	failed := &CallError{Driver: p.config.Driver, Operation: c.operation, notStarted: true}
	if ctx.Err() != nil {
		failed.Err = ctxend.Error(ctx)
		return answer{}, failed
	}
	for _, arg := range c.args {
		if len(arg) > maxArgument {
			failed.Err = fmt.Errorf("an argument of %d bytes: must be at most %d bytes, with options and Secret", len(arg), maxArgument)
			return answer{}, failed
		}
	}
	timeout := p.config.Timeout
	if c.waits {
		timeout = max(timeout, waitTimeout)
	}
	limited, cancel := context.WithTimeoutCause(ctx, timeout, ErrTimeout)
	defer cancel()
	type result struct {
		output programOutput
		err    error
	}
	r, began, err := keylock.Await(limited, p.running.Key(c.key), ctxend.Kernel, func() (result, error) {
		output, err := p.run(limited, d.path, append([]string{c.operation}, c.args...), p.config.Env)
		return result{output, err}, nil
	}, nil)
	switch {
	case err == nil:
		return p.answerTo(limited, d, c, r.output, r.err)
	case began: // the kernel has not ended the driver yet
		failed.notStarted = false
	case ctx.Err() == nil:
		err = errEarlierCall
	}
	failed.Err = err
	return answer{}, failed
}

// answerTo returns the answer of a driver that has ended, or the error of the call.
func (p *Plugin) answerTo(ctx context.Context, d *installed, c call, output programOutput, exit error) (answer, error) {
	a, message, cause := resultOf(output, exit)
	var notStarted *notStartedError
	switch {
	case ctx.Err() != nil && exit != nil:
		cause, message = ctxend.Error(ctx), output.text()
	case cause == nil:
		return a, nil
	case errors.Is(cause, errNotSupported):
		d.markUnsupported(c.operation)
		return answer{}, errNotSupported
	}
	if c.hidden && message != "" {
		message = "the output is withheld: the driver has received a Secret"
	}
	return answer{}, &CallError{
		Driver: p.config.Driver, Operation: c.operation, Message: redaction.Message(message, c.secrets), Err: cause,
		notStarted: errors.As(exit, &notStarted),
	}
}

// resultOf returns the answer of a driver, or the cause of its failure with the driver's message. An exit status other
// than 0 turns a success into a failure.
func resultOf(output programOutput, err error) (a answer, message string, cause error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return answer{}, "", err
	}
	a, bad := parseAnswer(output)
	switch {
	case bad != nil && err != nil:
		return answer{}, output.text(), fmt.Errorf("%w: %w", err, bad)
	case bad != nil:
		return answer{}, output.text(), bad
	case a.Status == statusNotSupported:
		return answer{}, "", errNotSupported
	case a.Status != statusSuccess:
		return answer{}, a.Message, ErrFailed
	case err != nil:
		return answer{}, a.Message, fmt.Errorf("%w after a success", err)
	}
	return a, "", nil
}

// text returns the output. An output that was cut may end with a part of a Secret value.
func (o *programOutput) text() string {
	if o.stdout.cut || o.stderr.cut {
		return fmt.Sprintf("the output is longer than %d bytes", maxOutput)
	}
	return string(o.stdout.kept) + string(o.stderr.kept)
}

// withCallKind adds the kind to the error of a call that changes the volume: it is uncertain once the driver has run.
// Other errors stay as they are.
func withCallKind(err error) error {
	var failed *CallError
	switch {
	case !errors.As(err, &failed):
		return err
	case failed.notStarted:
		return volume.AsTransient(err)
	}
	return volume.AsUncertain(err)
}

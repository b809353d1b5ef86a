package flexvolume

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/volumekit/volumekit/internal/processgroup"
)

// A runner runs a driver. The error is that of a program that was not started, or has failed.
type runner func(ctx context.Context, path string, args, env []string) (programOutput, error)

// programOutput is the output of a driver.
type programOutput struct{ stdout, stderr beginning }

// A beginning keeps the first maxOutput bytes of an output.
type beginning struct {
	kept []byte
	cut  bool // there were more
}

// maxOutput limits each output of a call.
const maxOutput = 64 << 10

// Write implements io.Writer. It accepts all bytes: a driver whose output is closed might end early.
func (b *beginning) Write(p []byte) (int, error) {
	n := min(len(p), maxOutput-len(b.kept))
	b.cut = b.cut || n < len(p)
	b.kept = append(b.kept, p[:n]...)
	return len(p), nil
}

// systemPath is the PATH of drivers.
const systemPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// outputDelay is how long a call waits, after the end of the driver, for other processes that have its output open,
// such as a daemon.
const outputDelay = 500 * time.Millisecond

// runProgram runs a driver in a process group of its own, which is killed when ctx ends.
func runProgram(ctx context.Context, path string, args, env []string) (programOutput, error) {
	var output programOutput
	cmd := &exec.Cmd{
		Path: path, Args: append([]string{path}, args...), Dir: "/", Env: append([]string{systemPath}, env...),
		Stdout: &output.stdout, Stderr: &output.stderr, WaitDelay: outputDelay,
	}
	err := processgroup.Run(ctx, cmd, nil)
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	if cmd.Process == nil && err != nil {
		err = &notStartedError{err}
	}
	return output, err
}

// A notStartedError says that the driver did not run.
type notStartedError struct{ err error }

func (e *notStartedError) Error() string { return e.err.Error() }
func (e *notStartedError) Unwrap() error { return e.err }

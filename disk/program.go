package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/volumekit/volumekit/internal/processgroup"
)

// Programs runs the programs that make, check and grow file systems: those of the system,
// or fakes (package disktest).
type Programs interface {
	// LookPath returns an error that wraps ErrToolMissing if a program is not installed.
	LookPath(name string) error
	// Run runs a program until its end, and kills it with its children when ctx ends. It
	// does not return before the end of the program: until then the device is in use. The
	// error is a [*ToolError].
	Run(ctx context.Context, c Command) error
}

// A Command is a program with its arguments.
type Command struct {
	Name string
	Args []string
	// Path is the path of the device.
	Path string
	// Device is the device, which the program inherits as descriptor 3, and has as
	// argument /proc/self/fd/3. Nil: the argument is Path.
	Device *os.File
}

// inherited is the path of the device for a program that has the device as descriptor 3.
const inherited = "/proc/self/fd/3"

// SystemPrograms returns the programs in PATH.
func SystemPrograms() Programs { return systemPrograms{} }

type systemPrograms struct{}

// LookPath implements [Programs].
func (systemPrograms) LookPath(name string) error {
	if _, err := exec.LookPath(name); err != nil {
		return &ToolError{Tool: name, ExitCode: -1, Err: fmt.Errorf("%w: %w", ErrToolMissing, err)}
	}
	return nil
}

// killDelay is how long Run waits for the end of the output of a killed program.
const killDelay = 10 * time.Second

// Run implements [Programs]. The program has a process group of its own, and ends with
// this process.
func (systemPrograms) Run(ctx context.Context, c Command) error {
	command := exec.Command(c.Name, c.Args...)
	command.WaitDelay = killDelay
	output := &lastBytes{}
	command.Stdout, command.Stderr = output, output
	if c.Device != nil {
		command.ExtraFiles = []*os.File{c.Device}
	}
	return toolError(c.Name, processgroup.Run(ctx, command, nil), output)
}

func toolError(name string, err error, output *lastBytes) error {
	if err == nil {
		return nil
	}
	failed := &ToolError{Tool: name, ExitCode: -1, Output: output.String(), Err: err}
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		failed.Err = fmt.Errorf("%w: %w", ErrToolMissing, err)
	case errors.As(err, &exit):
		failed.ExitCode = exit.ExitCode()
	}
	return failed
}

// lastBytes keeps the end of an output.
type lastBytes struct{ kept []byte }

const mostOutput = 4 << 10

// Write implements io.Writer.
func (l *lastBytes) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	if excess := len(l.kept) - mostOutput; excess > 0 {
		l.kept = append(l.kept[:0], l.kept[excess:]...)
	}
	return len(p), nil
}

func (l *lastBytes) String() string { return string(l.kept) }

// run runs a program on the device: an argument inherited is its path there.
func (d *Device) run(ctx context.Context, name string, args ...string) error {
	c := Command{Name: name, Args: args, Path: d.Info().Path, Device: d.handle.File()}
	if c.Device == nil {
		for i, arg := range args {
			if arg == inherited {
				args[i] = c.Path
			}
		}
	}
	return d.disks.programs.Run(ctx, c)
}

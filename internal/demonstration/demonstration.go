// Package demonstration runs example programs that show a thing and leave nothing behind: in a user and
// mount namespace of their own, or with a kernel in memory, and in a temporary directory.
package demonstration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/namespace"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// A Kernel mounts.
type Kernel struct {
	mount.Interface
	// RealPath returns the path of a file in a volume without the mounts of a kernel in memory.
	RealPath func(path string) (string, error)
}

// Unwrap returns the mounter of the kernel, see [mount.As].
func (k Kernel) Unwrap() mount.Interface { return k.Interface }

// A Program is an example program without arguments.
type Program struct {
	Name namespace.Program
	Help string // a sentence on the program
	// Show is the work of the program: with the mounts of a kernel, in a directory of its own.
	Show func(ctx context.Context, out io.Writer, k Kernel, dir string) error
}

// Run runs the program, and returns its exit status.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(string(p.Name), flag.ContinueOnError)
	err := cli.Parse(flags, args, stdout, p.Help)
	if err != nil {
		return cli.UsageStatus(string(p.Name), err, stderr)
	}
	if !p.Name.IsInside() {
		cmd := mounttest.Command("/proc/self/exe", args...)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		var status int
		if status, err = p.Name.Run(ctx, cmd); err == nil {
			return status
		}
	} else {
		err = p.Name.Enter()
	}
	ctx, out := cli.NewOutput(ctx, stdout)
	defer out.Close()
	return cli.ExitStatus(string(p.Name), p.Work(ctx, out, err), stderr)
}

// Work shows the work of the program on the kernel, or after a fault that wraps [namespace.ErrNone] on one
// in memory. It returns any other fault.
func (p Program) Work(ctx context.Context, out *cli.Output, fault error) error {
	k := Kernel{mount.New(mount.Config{}), func(path string) (string, error) { return path, nil }}
	switch {
	case errors.Is(fault, namespace.ErrNone):
		_, _ = fmt.Fprintf(out, "Nothing is mounted, this is an in-memory kernel: %s.\n", cli.OneLine(fault.Error()))
		k = inMemory()
	case fault != nil:
		return fault
	}
	return errors.Join(p.showInTemp(ctx, out, k), out.Err())
}

func inMemory() Kernel {
	fake := mounttest.NewFake(mount.Config{})
	return Kernel{fake, func(path string) (string, error) {
		resolved, _, err := fake.RealPath(path)
		return resolved, err
	}}
}

// showInTemp shows the work in a temporary directory, which it removes.
func (p Program) showInTemp(ctx context.Context, out io.Writer, k Kernel) error {
	dir, err := os.MkdirTemp("", "volumekit")
	if err != nil {
		return err
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = p.Show(ctx, out, k, resolved)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

package main

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

const program namespace.Program = "provisioner"

func main() { os.Exit(cli.Start(run)) }

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(string(program), flag.ContinueOnError)
	err := cli.Parse(flags, args, stdout, "provisioner turns a claim into a mounted directory, and removes the directory with the claim.")
	if err != nil {
		return cli.UsageStatus(string(program), err, stderr)
	}
	if !program.IsInside() {
		cmd := mounttest.Command("/proc/self/exe", args...)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		var status int
		if status, err = program.Run(ctx, cmd); err == nil {
			return status
		}
	} else {
		err = program.Enter()
	}
	ctx, out := cli.NewOutput(ctx, stdout)
	defer out.Close()
	return cli.ExitStatus(string(program), work(ctx, out, err), stderr)
}

// work runs the demonstration on the kernel, or with a fault that wraps namespace.ErrNone on one in
// memory. It returns any other fault.
func work(ctx context.Context, out *cli.Output, fault error) error {
	k := kernel{mount.New(mount.Config{}), func(path string) (string, error) { return path, nil }}
	switch {
	case errors.Is(fault, namespace.ErrNone):
		_, _ = fmt.Fprintf(out, "Nothing is mounted, this is an in-memory kernel: %s.\n", cli.OneLine(fault.Error()))
		k = inMemory()
	case fault != nil:
		return fault
	}
	return errors.Join(demonstrateInTemp(ctx, out, k), out.Err())
}

// A kernel mounts. realPath returns the path of a file in a volume without the mounts of a kernel in
// memory.
type kernel struct {
	mount.Interface
	realPath func(path string) (string, error)
}

func inMemory() kernel {
	fake := mounttest.NewFake(mount.Config{})
	return kernel{fake, func(path string) (string, error) {
		resolved, _, err := fake.RealPath(path)
		return resolved, err
	}}
}

// demonstrateInTemp runs the demonstration in a temporary directory, which it removes.
func demonstrateInTemp(ctx context.Context, out io.Writer, k kernel) error {
	dir, err := os.MkdirTemp("", "volumekit")
	if err != nil {
		return err
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = demonstrate(ctx, out, k, resolved)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

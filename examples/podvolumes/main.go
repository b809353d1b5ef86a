package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/volumekit/volumekit/examples/internal/machine"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/namespace"
)

const program namespace.Program = "podvolumes"

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := cli.Context()
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr, machine.New(program))
}

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, m machine.Machine) int {
	c := &cli.Console{Program: string(program), Stdout: stdout, Stderr: stderr}
	o, err := parseOptions(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		c.Fail(fmt.Errorf("%w; see -help", err))
		return 2
	}
	kernel, err := m.Choose(ctx, machine.Wish{Here: o.down, Dry: o.dryRun, Stays: o.keep})
	if errors.Is(err, machine.ErrElsewhere) {
		var status int
		if kernel, status, err = m.Rerun(ctx, args, stdout, stderr); err == nil && kernel.Interface == nil {
			return status
		}
	}
	if err == nil {
		perform(ctx, o, m.Stdin, c, kernel)
	} else {
		c.Fail(err)
	}
	return c.Status()
}

func perform(ctx context.Context, o options, stdin io.Reader, c *cli.Console, kernel machine.Kernel) {
	ctx = c.Listen(ctx)
	defer c.Close()
	if kernel.InMemory {
		c.Prefix = "dry run: "
	}
	if o.down {
		takeDownVolumes(ctx, o, c, kernel)
		return
	}
	j, err := newJob(o, stdin, kernel, c)
	if err == nil {
		err = j.prepare(ctx)
	}
	if err == nil {
		j.run(ctx)
		return
	}
	if c.OutputErr() == nil {
		c.Fail(err)
	}
	j.removePrepared(ctx)
}

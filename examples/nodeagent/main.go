package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/namespace"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := cli.Context()
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// program may run in a namespace of its own.
const program namespace.Program = "nodeagent"

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "nodeagent: %s; see -help\n", cli.OneLine(err.Error()))
		return 2
	case !o.status && (o.isDemo() || os.Geteuid() != 0) && !program.IsInside():
		return program.Rerun(ctx, args, stdout, stderr)
	}
	ctx, out := cli.NewOutput(ctx, stdout)
	defer out.Close()
	if o.status {
		err = printStatus(out, o)
	} else {
		err = work(ctx, o, out)
	}
	if failed := out.Err(); failed != nil && !errors.Is(err, failed) {
		err = errors.Join(err, failed)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "nodeagent:", cli.OneLine(err.Error()))
		return 1
	}
	return 0
}

func work(ctx context.Context, o options, stdout io.Writer) (err error) {
	if program.IsInside() {
		if err := program.Enter(); err != nil {
			return err
		}
	}
	if o.isDemo() {
		d, err := newDemo()
		if err != nil {
			return err
		}
		return errors.Join(d.work(ctx, o, stdout), d.remove())
	}
	a, err := newAgent(ctx, o, stdout)
	if err != nil {
		return err
	}
	return errors.Join(a.runLocked(ctx, nil), a.close())
}

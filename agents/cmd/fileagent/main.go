package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/namespace"
)

func main() { os.Exit(cli.Start(run)) }

// program may run in a namespace of its own.
const program namespace.Program = "fileagent"

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	switch {
	case err != nil:
		return cli.UsageStatus("fileagent", err, stderr)
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
	return cli.ExitStatus("fileagent", err, stderr)
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

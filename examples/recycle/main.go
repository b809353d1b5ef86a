package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/namespace"
)

func main() { os.Exit(cli.Start(run)) }

// program mounts in a namespace of its own.
const program namespace.Program = "recycle"

type options struct {
	files int
	pod   bool
}

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	switch {
	case err != nil:
		return cli.UsageStatus("recycle", err, stderr)
	case !o.pod && !program.IsInside():
		return program.Rerun(ctx, args, stdout, stderr)
	case !o.pod:
		err = program.Enter()
	}
	if err == nil {
		err = runWithOutput(ctx, o, stdout)
	}
	return cli.ExitStatus("recycle", err, stderr)
}

// runWithOutput ends early with the error when its output cannot be written.
func runWithOutput(ctx context.Context, o options, stdout io.Writer) error {
	ctx, out := cli.NewOutput(ctx, stdout)
	defer out.Close()
	work := inProcess
	if o.pod {
		work = byPod
	}
	err := work(ctx, progressPrinter{out}, o.files)
	return cmp.Or(out.Err(), err)
}

const most = 1_000_000

func parse(args []string, stdout io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("recycle", flag.ContinueOnError)
	flags.IntVar(&o.files, "files", 300, "how many files the volume has")
	flags.BoolVar(&o.pod, "pod", false, "recycle by a pod, in a cluster in memory")
	err = cli.Parse(flags, args, stdout, "recycle empties a volume whose claim is gone.")
	if err == nil && (o.files < 0 || o.files > most) {
		err = fmt.Errorf("-files must be between 0 and %d, got %d", most, o.files)
	}
	return o, err
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/volumekit/volumekit/examples/internal/cli"
	"github.com/volumekit/volumekit/examples/internal/namespace"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := cli.Context()
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

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
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "recycle: %v; see -help\n", err)
		return 2
	case o.pod:
		err = byPod(ctx, teller{stdout}, o.files)
	case !program.IsInside():
		return program.Rerun(ctx, args, stdout, stderr)
	default:
		if err = program.Enter(); err == nil {
			err = inProcess(ctx, teller{stdout}, o.files)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "recycle:", err)
		return 1
	}
	return 0
}

const most = 1_000_000

func parse(args []string, stdout io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("recycle", flag.ContinueOnError)
	flags.IntVar(&o.files, "files", 300, "how many files the volume has")
	flags.BoolVar(&o.pod, "pod", false, "recycle by a pod, in a cluster in memory")
	err = cli.Parse(flags, args, stdout, "recycle empties a volume that nobody claims any more.")
	if err == nil && (o.files < 0 || o.files > most) {
		err = fmt.Errorf("-files %d: not between 0 and %d", o.files, most)
	}
	return o, err
}

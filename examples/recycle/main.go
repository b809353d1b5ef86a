package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/volumekit/volumekit/mount/mounttest"
)

func main() { os.Exit(start()) }

func start() int {
	// A reader of our output who goes away must not keep us from tidying up.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

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
	case !inside():
		return reexec(ctx, args, stdout, stderr)
	default:
		if err = mounttest.Privatize(); err != nil {
			err = fmt.Errorf("%s: %w", noNamespace, err)
			break
		}
		err = inProcess(ctx, teller{stdout}, o.files)
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
	flags.SetOutput(io.Discard)
	flags.IntVar(&o.files, "files", 300, "how many files the volume has")
	flags.BoolVar(&o.pod, "pod", false, "recycle by a pod, in a cluster in memory")
	err = flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stdout)
		flags.PrintDefaults()
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case err == nil && (o.files < 0 || o.files > most):
		err = fmt.Errorf("-files %d: not between 0 and %d", o.files, most)
	}
	return o, err
}

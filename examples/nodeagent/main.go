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
	// A reader of our output who goes away must not end us.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "nodeagent: %s; see -help\n", oneLine(err.Error()))
		return 2
	case o.status:
		err = printStatus(stdout, o)
	case (o.isDemo() || os.Geteuid() != 0) && !inside():
		return reexec(ctx, args, stdout, stderr)
	default:
		err = work(ctx, o, stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "nodeagent:", oneLine(err.Error()))
		return 1
	}
	return 0
}

func work(ctx context.Context, o options, stdout io.Writer) (err error) {
	if inside() {
		if err := mounttest.Privatize(); err != nil {
			return fmt.Errorf("%s: %w", noNamespace, err)
		}
	}
	if o.isDemo() {
		d, err := newDemo()
		if err != nil {
			return err
		}
		return errors.Join(d.work(ctx, o, stdout), d.remove())
	}
	a, err := newAgent(o, stdout)
	if err != nil {
		return err
	}
	return errors.Join(a.work(ctx, nil), a.close())
}

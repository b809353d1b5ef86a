package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/volumekit/volumekit/examples/internal/cli"
)

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, d deps) int {
	o, err := parseOptions(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "podvolumes:", cli.OneLine(err.Error())+"; see -help")
		return 2
	}
	c := &console{stdout: stdout, stderr: stderr}
	where, err := d.choose(ctx, o)
	switch {
	case errors.Is(err, errElsewhere):
		return d.elsewhere(ctx, o, args, c)
	case err != nil:
		c.fail(err)
	default:
		perform(ctx, o, d, c, where)
	}
	return c.status()
}

// elsewhere has a copy of the program do it, or, where there cannot be one, does
// it dry.
func (d deps) elsewhere(ctx context.Context, o options, args []string, c *console) int {
	status, err := d.reexec(ctx, args, c)
	if err == nil {
		return status
	}
	why := fmt.Sprintf("not root on this machine, and no user namespace to be had (%v)", err)
	perform(ctx, o, d, c, d.dry(why))
	return c.status()
}

func perform(ctx context.Context, o options, d deps, c *console, where place) {
	if where.dry {
		c.prefix = "dry run: "
	}
	if o.down {
		down(ctx, o, c, where)
		return
	}
	j, err := newJob(o, d.stdin, where, c)
	if err == nil {
		err = j.prepare()
	}
	if err != nil {
		c.fail(err)
		j.abandon()
		return
	}
	j.run(ctx)
}

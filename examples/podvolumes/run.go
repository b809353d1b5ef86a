package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
)

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, d deps) int {
	o, err := parseOptions(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "podvolumes:", oneLine(err.Error())+"; see -help")
		return 2
	}
	c := &console{stdout: stdout, stderr: stderr}
	where, err := d.choose(ctx, o)
	if errors.Is(err, errElsewhere) {
		var status int
		if status, err = d.reexec(ctx, args, c); err == nil {
			return status
		}
		where = d.dry(fmt.Sprintf("not root on this machine, and no user namespace to be had (%v)", err))
		err = nil
	}
	if err != nil {
		c.fail(err)
		return c.status()
	}
	perform(ctx, o, d, c, where)
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

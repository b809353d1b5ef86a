package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/mount"
)

// deps are the program's dependencies on the machine; tests replace them.
type deps struct {
	root    bool // the user is root
	mounter func(options) mount.Interface
	demo    func(context.Context, options, *console) error
}

// machine returns the real dependencies.
func machine() deps {
	return deps{root: os.Geteuid() == 0, mounter: realMounter, demo: demo}
}

// realMounter returns a mounter that unmounts a mount of a dead server before a step's
// timeout: its policy has three stages after the check whether the server answers.
func realMounter(o options) mount.Interface {
	return mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: o.timeout / 6}})
}

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, d deps) int {
	o, err := parseOptions(args, stdout)
	if err != nil {
		return cli.UsageStatus("nfs", err, stderr)
	}
	ctx, out := cli.NewOutput(ctx, stdout)
	defer out.Close()
	c := &console{stdout: out, stderr: stderr}
	switch {
	case o.demo:
		err = d.demo(ctx, o, c)
	case !d.root:
		err = errors.New("mounting NFS requires root, -demo does not")
	default:
		err = mountAndShow(ctx, o, c, d.mounter(o))
	}
	switch {
	case out.Err() != nil:
		err = out.Err()
	case err != nil && ctx.Err() != nil:
		err = errInterrupted
	}
	if err != nil {
		c.fail(err)
	}
	return c.status()
}

// mountAndShow mounts the volume, shows it, and takes it down, also after an error.
func mountAndShow(ctx context.Context, o options, c *console, mounter mount.Interface) error {
	n, err := newNode(ctx, c, mounter, o.timeout)
	if err != nil {
		return err
	}
	return errors.Join(n.upAndShow(ctx, &o), n.tidyUp(ctx))
}

func (n *node) upAndShow(ctx context.Context, o *options) error {
	v, err := n.plan("example", o.spec())
	if err == nil {
		err = n.within(ctx, v.setUp)
	}
	if err == nil {
		err = n.within(ctx, v.printState)
	}
	return err
}

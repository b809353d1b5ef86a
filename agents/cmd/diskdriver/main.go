package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/driverprogram"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/fsusage"
)

var program = driverprogram.Program[options]{Name: "diskdriver", Parse: parse, Serve: serve}

func main() { os.Exit(cli.Start(cli.PrintSteps("diskdriver", program.Run))) }

type options struct {
	driverprogram.Options
	disks        string
	isController bool
}

func parse(args []string, help io.Writer) (o options, err error) {
	set := o.NewFlags("diskdriver", "disk.csi.volumekit.io")
	set.StringVar(&o.disks, "disks", "", "the `DIR` of the disks, which all nodes share; required")
	set.BoolVar(&o.isController, "controller", false, "create, attach and grow disks (default: mount disks, and register)")
	err = o.Parse(set, args, help, "diskdriver is a CSI driver for disks that are files in a shared directory.")
	switch {
	case err != nil:
	case o.disks == "":
		err = errors.New("-disks: required")
	case !path.IsAbs(o.disks):
		err = fmt.Errorf("-disks: %s must be absolute", input.Quote(o.disks))
	}
	return o, err
}

// serve serves the driver until ctx ends, and registers the driver of a node.
func serve(ctx context.Context, o options, mounter mount.Interface, log *slog.Logger) error {
	listener, config, err := o.Listen(ctx, log)
	if err != nil {
		return err
	}
	plugin := newPlugin(o.Driver, o.Node, o.disks, mounter)
	config.Plugin, config.Mounter = plugin, mounter
	if !o.isController {
		if err := plugin.releaseUnused(ctx); err != nil {
			return errors.Join(err, listener.Close())
		}
		go o.Register(ctx, log)
		return driver.Serve(ctx, listener, config)
	}
	config.ControllerDir = path.Join(o.disks, ".records")
	if err := makeDir(ctx, config.ControllerDir); err != nil {
		return errors.Join(err, listener.Close())
	}
	config.Capacity = func(ctx context.Context, _ map[string]string) (driver.Capacity, error) {
		use, err := fsusage.Stat(ctx, o.disks)
		return driver.Capacity{Available: use.Available, Largest: use.Available}, err
	}
	return driver.Serve(ctx, listener, config)
}

// makeDir makes a directory in that of the disks, which exists: another one would hide that the disks are missing.
func makeDir(ctx context.Context, dir string) error {
	_, err := ctxend.Await(ctx, ctxend.Kernel, func() (any, error) { return nil, os.Mkdir(dir, 0o700) }, nil)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

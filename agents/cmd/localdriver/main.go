package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/driverprogram"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/fsusage"
)

var program = driverprogram.Program[options]{Name: "localdriver", Parse: parse, Serve: serve}

func main() { os.Exit(cli.Start(cli.PrintSteps("localdriver", program.Run))) }

type options struct {
	driverprogram.Options
	claims string
}

func parse(args []string, help io.Writer) (o options, err error) {
	set := o.NewFlags("localdriver", "local.csi.volumekit.io")
	set.StringVar(&o.claims, "claims", "", "the `DIR` for the directories of claims; required")
	err = o.Parse(set, args, help, "localdriver is a CSI driver for directories of nodes.")
	if err == nil && o.claims == "" {
		err = errors.New("-claims: required")
	}
	return o, err
}

// serve serves and registers the driver until ctx ends.
func serve(ctx context.Context, o options, mounter mount.Interface, log *slog.Logger) error {
	listener, config, err := o.Listen(ctx, log)
	if err != nil {
		return err
	}
	go o.Register(ctx, log)
	config.Plugin = local.NewProvisioning(local.ProvisioningConfig{
		Config: local.Config{Mounter: mounter}, Provisioner: o.Driver, ClaimRoots: []string{o.claims},
	})
	config.Mounter, config.MountGroup = mounter, true
	config.Topology = []driver.Segment{{Key: "topology." + o.Driver + "/node", Value: o.Node}}
	config.Capacity = func(ctx context.Context, _ map[string]string) (driver.Capacity, error) {
		use, err := fsusage.Stat(ctx, o.claims)
		return driver.Capacity{Available: use.Available, Largest: use.Available}, err
	}
	return driver.Serve(ctx, listener, config)
}

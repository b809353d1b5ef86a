package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/driverprogram"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
)

var program = driverprogram.Program[options]{Name: "nfsdriver", Parse: parse, Serve: serve}

func main() { os.Exit(cli.Start(cli.PrintSteps("nfsdriver", program.Run))) }

type options struct {
	driverprogram.Options
	server, path, export string
}

func parse(args []string, help io.Writer) (o options, err error) {
	set := o.NewFlags("nfsdriver", "nfs.csi.volumekit.io")
	set.StringVar(&o.server, "server", "", "create volumes on this NFS `SERVER` (default: mount volumes, and register)")
	set.StringVar(&o.path, "path", "", "create volumes in this `EXPORT` of -server")
	set.StringVar(&o.export, "export", "", "the `DIR` at which the export is mounted")
	err = o.Parse(set, args, help, "nfsdriver is a CSI driver for NFS.")
	if err == nil && ((o.server == "") != (o.path == "") || (o.server == "") != (o.export == "")) {
		err = errors.New("-server, -path and -export require each other")
	}
	return o, err
}

// serve serves the driver until ctx ends, and registers the driver of a node.
func serve(ctx context.Context, o options, mounter mount.Interface, log *slog.Logger) error {
	records := path.Join(o.export, ".volumekit", ".csi")
	if o.server != "" {
		if err := makeInExport(ctx, mounter, o.export, records); err != nil {
			return err
		}
	}
	listener, config, err := o.Listen(ctx, log)
	if err != nil {
		return err
	}
	if o.server == "" {
		go o.Register(ctx, log)
		config.Plugin = nfs.New(nfs.Config{Mounter: mounter})
		return driver.Serve(ctx, listener, config)
	}
	config.ControllerDir = records
	config.Plugin = nfs.NewProvisioning(nfs.ProvisioningConfig{
		Config: nfs.Config{Mounter: mounter}, Provisioner: o.Driver, Server: o.server, Path: o.path, Dir: o.export,
	})
	return driver.Serve(ctx, listener, config)
}

// makeInExport creates a directory in the mounted export. In a directory that is not the export, records of volumes
// would be missing, and volumes without a record are not deleted.
func makeInExport(ctx context.Context, mounter mount.Interface, export, dir string) error {
	mounted, err := mounter.IsMountPoint(ctx, export)
	if err == nil && !mounted {
		err = fmt.Errorf("-export %s: %w", export, volume.ErrNotMounted)
	}
	if err != nil {
		return err
	}
	_, err = ctxend.Await(ctx, ctxend.Kernel, func() (any, error) { return nil, os.MkdirAll(dir, 0o700) }, nil)
	return err
}

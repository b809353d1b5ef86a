package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"

	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

func main() {
	ctx, stop := cli.Context()
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct{ name, node, endpoint, kubelet, server, path, export string }

func parse(args []string, help io.Writer) (o options, err error) {
	set := flag.NewFlagSet("nfs", flag.ContinueOnError)
	set.StringVar(&o.name, "name", "nfs.csi.volumekit.io", "the `NAME` of the driver")
	set.StringVar(&o.node, "node-id", os.Getenv("NODE_NAME"), "the `NAME` of this node, or the variable NODE_NAME")
	set.StringVar(&o.kubelet, "kubelet-dir", "/var/lib/kubelet", "the kubelet's `DIR`, without symbolic links")
	set.StringVar(&o.endpoint, "endpoint", "", "the `SOCKET` of the driver (default: csi.sock in plugins/NAME of -kubelet-dir)")
	set.StringVar(&o.server, "server", "", "create volumes on this NFS `SERVER` (default: mount volumes, and register)")
	set.StringVar(&o.path, "path", "", "create volumes in this `EXPORT` of -server")
	set.StringVar(&o.export, "export", "", "the `DIR` at which the export is mounted")
	err = cli.Parse(set, args, help, "nfs is a CSI driver for NFS.")
	switch {
	case err == nil && o.node == "":
		err = errors.New("-node-id: required")
	case err == nil && ((o.server == "") != (o.path == "") || (o.server == "") != (o.export == "")):
		err = errors.New("-server, -path and -export require each other")
	}
	if o.endpoint == "" {
		o.endpoint = path.Join(o.root(), "csi.sock")
	}
	return o, err
}

// root returns the driver's own directory.
func (o options) root() string { return path.Join(o.kubelet, "plugins", o.name) }

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	status := 2
	if err == nil {
		status, err = 1, serve(ctx, o, mount.New(mount.Config{}), slog.New(slog.NewTextHandler(stderr, nil)))
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "nfs:", cli.OneLine(err.Error()))
		return status
	}
	return 0
}

// serve serves the driver until ctx ends, and registers the driver of a node.
func serve(ctx context.Context, o options, mounter mount.Interface, log *slog.Logger) error {
	config := driver.Config{Name: o.name, Version: "0.1.0", NodeID: o.node, Logger: log, Plugin: nfs.New(nfs.Config{Mounter: mounter})}
	if o.server != "" {
		config.ControllerDir = path.Join(o.export, ".volumekit", ".csi")
		config.Plugin = nfs.NewProvisioning(nfs.ProvisioningConfig{
			Config: nfs.Config{Mounter: mounter}, Provisioner: o.name, Server: o.server, Path: o.path, Dir: o.export,
		})
	}
	if err := os.MkdirAll(o.root(), 0o700); err != nil {
		return err
	}
	if o.server != "" {
		if err := makeInExport(ctx, mounter, o.export, config.ControllerDir); err != nil {
			return err
		}
	}
	host, err := volume.NewHost(ctx, o.root(), volume.WithTargetDirs(o.kubelet), volume.WithNodeName(types.NodeName(o.node)))
	if err != nil {
		return err
	}
	config.Host = host
	listener, err := driver.Listen(ctx, o.endpoint)
	if err != nil {
		return err
	}
	if o.server == "" {
		go registration.Keep(ctx, registration.ServerConfig{Dir: path.Join(o.kubelet, "plugins_registry"), Endpoint: o.endpoint, Driver: o.name, Logger: log})
	}
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

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
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

func main() {
	ctx, stop := cli.Context()
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct{ name, node, endpoint, kubelet, claims string }

func parse(args []string, help io.Writer) (o options, err error) {
	set := flag.NewFlagSet("local", flag.ContinueOnError)
	set.StringVar(&o.name, "name", "local.csi.volumekit.io", "the `NAME` of the driver")
	set.StringVar(&o.node, "node-id", os.Getenv("NODE_NAME"), "the `NAME` of this node, or the variable NODE_NAME")
	set.StringVar(&o.kubelet, "kubelet-dir", "/var/lib/kubelet", "the kubelet's `DIR`, without symbolic links")
	set.StringVar(&o.endpoint, "endpoint", "", "the `SOCKET` of the driver (default: csi.sock in plugins/NAME of -kubelet-dir)")
	set.StringVar(&o.claims, "claims", "", "the `DIR` for the directories of claims; required")
	err = cli.Parse(set, args, help, "local is a CSI driver for directories of nodes.")
	if err == nil && (o.node == "" || o.claims == "") {
		err = errors.New("-node-id and -claims: required")
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
		_, _ = fmt.Fprintln(stderr, "local:", cli.OneLine(err.Error()))
		return status
	}
	return 0
}

// serve serves and registers the driver until ctx ends.
func serve(ctx context.Context, o options, mounter mount.Interface, log *slog.Logger) error {
	if err := os.MkdirAll(o.root(), 0o750); err != nil {
		return err
	}
	host, err := volume.NewHost(ctx, o.root(), volume.WithTargetDirs(o.kubelet), volume.WithNodeName(types.NodeName(o.node)))
	if err != nil {
		return err
	}
	listener, err := driver.Listen(ctx, o.endpoint)
	if err != nil {
		return err
	}
	go registration.Keep(ctx, registration.ServerConfig{Dir: path.Join(o.kubelet, "plugins_registry"), Endpoint: o.endpoint, Driver: o.name, Logger: log})
	config := local.Config{Mounter: mounter}
	return driver.Serve(ctx, listener, driver.Config{
		Name: o.name, Version: "0.1.0", NodeID: o.node, Host: host, Mounter: mounter, MountGroup: true, Logger: log,
		Plugin:   local.NewProvisioning(local.ProvisioningConfig{Config: config, Provisioner: o.name, ClaimRoots: []string{o.claims}}),
		Topology: []driver.Segment{{Key: "topology." + o.name + "/node", Value: o.node}},
		Capacity: func(ctx context.Context, _ map[string]string) (driver.Capacity, error) {
			use, err := fsusage.Stat(ctx, o.claims)
			return driver.Capacity{Available: use.Available, Largest: use.Available}, err
		},
	})
}

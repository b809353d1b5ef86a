// Package driverprogram has the parts that programs with a CSI driver share: their flags, their directory and
// socket, the registration, and the exit status.
package driverprogram

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"os"
	"path"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// Options are the flags of all drivers.
type Options struct{ Driver, Node, Endpoint, Kubelet, Health string }

// NewFlags returns the flags of a program, whose driver has a name by default. Parse stores their values in o.
func (o *Options) NewFlags(program, driver string) *flag.FlagSet {
	set := flag.NewFlagSet(program, flag.ContinueOnError)
	set.StringVar(&o.Driver, "name", driver, "the `NAME` of the driver")
	set.StringVar(&o.Node, "node-id", os.Getenv("NODE_NAME"), "the `NAME` of this node, or the variable NODE_NAME")
	set.StringVar(&o.Kubelet, "kubelet-dir", "/var/lib/kubelet", "the kubelet's `DIR`, without symbolic links")
	set.StringVar(&o.Health, "health", "", "answer the liveness probes of a kubelet at /healthz of this `ADDRESS`, such as :9808")
	set.StringVar(&o.Endpoint, "endpoint", "", "the `SOCKET` of the driver (default: csi.sock in plugins/NAME of -kubelet-dir)")
	return set
}

// Parse parses the command line, as cli.Parse does.
func (o *Options) Parse(set *flag.FlagSet, args []string, help io.Writer, about string) error {
	err := cli.Parse(set, args, help, about)
	if err == nil && o.Node == "" {
		err = errors.New("-node-id: required")
	}
	if o.Endpoint == "" {
		o.Endpoint = path.Join(o.Root(), "csi.sock")
	}
	return err
}

// Root returns the driver's own directory.
func (o Options) Root() string { return path.Join(o.Kubelet, "plugins", o.Driver) }

// Listen makes the driver's own directory and its socket, and returns a configuration without a plugin. It answers
// liveness probes until ctx ends.
func (o Options) Listen(ctx context.Context, log *slog.Logger) (net.Listener, driver.Config, error) {
	config := driver.Config{Name: o.Driver, Version: "0.1.0", NodeID: o.Node, Logger: log}
	if err := os.MkdirAll(o.Root(), 0o750); err != nil {
		return nil, config, err
	}
	var err error
	config.Host, err = volume.NewHost(ctx, o.Root(), volume.WithTargetDirs(o.Kubelet), volume.WithNodeName(types.NodeName(o.Node)))
	if err != nil {
		return nil, config, err
	}
	listener, err := driver.Listen(ctx, o.Endpoint)
	if err == nil && o.Health != "" {
		if err = (health{o.Endpoint}).serve(ctx, o.Health, log); err != nil {
			err = errors.Join(err, listener.Close())
		}
	}
	return listener, config, err
}

// Register registers the driver with the kubelet until ctx ends.
func (o Options) Register(ctx context.Context, log *slog.Logger) {
	dir := path.Join(o.Kubelet, "plugins_registry")
	registration.Keep(ctx, registration.ServerConfig{Dir: dir, Endpoint: o.Endpoint, Driver: o.Driver, Logger: log})
}

// A Program is a program with options of type O.
type Program[O any] struct {
	Name  string
	Parse func(args []string, help io.Writer) (O, error)
	// Serve serves the driver until ctx ends.
	Serve func(ctx context.Context, o O, mounter mount.Interface, log *slog.Logger) error
}

// Run runs the program, and returns its exit status.
func (p Program[O]) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := p.Parse(args, stdout)
	if err != nil {
		return cli.UsageStatus(p.Name, err, stderr)
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	return cli.ExitStatus(p.Name, p.Serve(ctx, o, mount.New(mount.Config{}), log), stderr)
}

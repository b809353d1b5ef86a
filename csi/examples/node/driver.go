package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"

	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// A localDriver is a driver whose volumes are directories.
type localDriver struct {
	root    string // for its socket and its records
	claims  string // for the directories
	node    string // the root of the node's volumes
	sockets string // the directory of the sockets by which drivers register
	mounter mount.Interface
}

func (d localDriver) socket() string { return filepath.Join(d.root, "csi.sock") }

// register registers the driver until ctx ends.
func (d localDriver) register(ctx context.Context) error {
	return registration.Serve(ctx, registration.ServerConfig{Dir: d.sockets, Endpoint: d.socket(), Driver: driverName})
}

// listen listens on the socket of the driver. The registration of a driver without a socket is refused.
func (d localDriver) listen(ctx context.Context) (net.Listener, error) {
	return driver.Listen(ctx, d.socket())
}

// serve serves the driver until ctx ends.
func (d localDriver) serve(ctx context.Context, listener net.Listener) error {
	host, err := volume.NewHost(ctx, d.root, volume.WithTargetDirs(d.node), volume.WithNodeName(nodeName))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return driver.Serve(ctx, listener, driver.Config{
		Name: driverName, Version: "0.1.0", NodeID: nodeName, Host: host,
		Plugin: local.NewProvisioning(local.ProvisioningConfig{
			Config: local.Config{Mounter: d.mounter}, Provisioner: driverName, ClaimRoots: []string{d.claims},
		}),
		Topology: []driver.Segment{{Key: topologyKey, Value: nodeName}},
	})
}

// topologyKey is the key of the topology: a directory exists on one node.
const topologyKey = "topology." + driverName + "/node"

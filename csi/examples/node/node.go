package main

import (
	"context"
	"sync"

	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// A node has the manager of its volumes, with the pods in memory.
type node struct {
	pods       *manager.MemorySource
	volumes    *manager.Manager
	drivers    *registration.Watcher
	plugin     *csi.Plugin
	registered chan struct{} // closed after the registration of the driver
}

// newNode returns a node whose volumes appear below root, for drivers that register in sockets.
func newNode(ctx context.Context, mounter mount.Interface, root, sockets string) (*node, error) {
	n := &node{pods: manager.NewMemorySource(), registered: make(chan struct{})}
	once := sync.OnceFunc(func() { close(n.registered) })
	var err error
	n.drivers, err = registration.New(registration.Config{Dir: sockets, Changed: func(string) { once() }})
	if err != nil {
		return nil, err
	}
	host, err := volume.NewHost(ctx, root, volume.WithNodeName(nodeName))
	if err != nil {
		return nil, err
	}
	n.plugin = csi.New(csi.Config{Mounter: mounter, Drivers: n.drivers})
	plugins, err := volume.NewVolumePluginMgr(ctx, host, n.plugin)
	if err != nil {
		return nil, err
	}
	n.volumes, err = manager.New(manager.Config{Plugins: plugins, Mounter: mounter, Pods: n.pods, Claims: n.pods})
	return n, err
}

// run registers drivers, and sets up and tears down volumes, until ctx ends.
func (n *node) run(ctx context.Context) error {
	defer func() { _ = n.plugin.Close() }()
	return cli.RunAll(ctx, n.drivers.Run, n.volumes.Run)
}

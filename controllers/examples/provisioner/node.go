package main

import (
	"context"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// A nodeConfig describes a node. Volumes appear below root; the directories in disks can be volumes.
type nodeConfig struct {
	cluster     api.Cluster
	name        string
	mounter     mount.Interface
	root, disks string
}

// newNode returns the manager of the volumes of a node, and the functions that run it.
func newNode(ctx context.Context, c nodeConfig) (_ *manager.Manager, run []func(context.Context) error, err error) {
	source, err := node.NewSource(node.Config{Cluster: c.cluster, Node: types.NodeName(c.name)})
	if err != nil {
		return nil, nil, err
	}
	host, err := volume.NewHost(ctx, c.root, volume.WithNodeName(types.NodeName(c.name)))
	if err != nil {
		return nil, nil, err
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, local.New(local.Config{Mounter: c.mounter, Roots: []string{c.disks}}))
	if err != nil {
		return nil, nil, err
	}
	volumes, err := manager.New(manager.Config{Plugins: plugins, Mounter: c.mounter, Pods: source, Claims: source})
	if err != nil {
		return nil, nil, err
	}
	return volumes, []func(context.Context) error{source.Run, volumes.Run}, nil
}

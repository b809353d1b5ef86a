package main

import (
	"context"
	"errors"
	"os"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// An agent keeps the volumes of the pods of a node.
type agent struct {
	source  *node.Source
	manager *manager.Manager
	stop    func() error
}

// An agentConfig configures an agent.
type agentConfig struct {
	cluster api.Cluster
	node    types.NodeName
	mounter mount.Interface
	root    string
	disks   string // the directory of local volumes
}

// startAgent returns a running agent that has listed its pods.
func startAgent(ctx context.Context, c agentConfig) (*agent, error) {
	if err := os.MkdirAll(c.root, 0o755); err != nil {
		return nil, err
	}
	source, err := node.NewSource(node.Config{Cluster: c.cluster, Node: c.node})
	if err != nil {
		return nil, err
	}
	host, err := volume.NewHost(ctx, c.root, volume.WithNodeName(c.node))
	if err != nil {
		return nil, err
	}
	files := content.Config{Mounter: c.mounter, ConfigMaps: source, Secrets: source, Tokens: source}
	plugins, err := volume.NewVolumePluginMgr(ctx, host,
		local.New(local.Config{Mounter: c.mounter, Roots: []string{c.disks}}),
		emptydir.New(emptydir.Config{Mounter: c.mounter}),
		content.NewConfigMap(files), content.NewSecret(files), content.NewProjected(files))
	if err != nil {
		return nil, err
	}
	volumes, err := manager.New(manager.Config{Plugins: plugins, Mounter: c.mounter, Pods: source, Claims: source})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	unsubscribe := source.SubscribeContent(volumes.MarkRemountRequired)
	ended := make(chan error, 2)
	go func() { ended <- source.Run(running) }()
	go func() { ended <- volumes.Run(running) }()
	a := &agent{source: source, manager: volumes, stop: func() error {
		cancel()
		unsubscribe()
		var all error
		for range cap(ended) {
			all = errors.Join(all, <-ended)
		}
		return all
	}}
	if _, err := source.Pods(ctx); err != nil {
		return nil, errors.Join(err, a.stop())
	}
	return a, nil
}

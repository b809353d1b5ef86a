package agent

import (
	"context"
	"errors"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// A Config describes the agent of a node. The volumes appear below Root, which must exist.
type Config struct {
	Cluster node.Cluster
	Node    types.NodeName
	Mounter mount.Interface
	Root    string
	Started func(*manager.Manager) // receives the manager, which says when the volumes of a pod are mounted; required
}

// KeepVolumes keeps the volumes of the pods that are bound to the node mounted until ctx ends.
func KeepVolumes(ctx context.Context, config Config) error {
	source, err := node.NewSource(node.Config{Cluster: config.Cluster, Node: config.Node})
	if err != nil {
		return err
	}
	host, err := volume.NewHost(ctx, config.Root, volume.WithNodeName(config.Node))
	if err != nil {
		return err
	}
	files := content.Config{Mounter: config.Mounter, ConfigMaps: source, Secrets: source, Tokens: source}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, emptydir.New(emptydir.Config{Mounter: config.Mounter}),
		content.NewConfigMap(files), content.NewSecret(files), content.NewDownwardAPI(files), content.NewProjected(files))
	if err != nil {
		return err
	}
	volumes, err := manager.New(manager.Config{Plugins: plugins, Mounter: config.Mounter, Pods: source, Claims: source})
	if err != nil {
		return err
	}
	defer source.SubscribeContent(volumes.MarkRemountRequired)()
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx); stop() }()
	config.Started(volumes)
	err = volumes.Run(ctx)
	stop()
	return errors.Join(err, <-ended)
}

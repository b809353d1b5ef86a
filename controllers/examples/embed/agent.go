package embed

import (
	"context"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// KeepVolumes keeps the volumes of the pods that are bound to a node mounted below root until
// ctx ends, and calls start with the manager, which says when the volumes of a pod are up.
func KeepVolumes(ctx context.Context, cluster node.Cluster, mounter mount.Interface, name types.NodeName, root string, start func(*manager.Manager)) error {
	source, err := node.NewSource(node.Config{Cluster: cluster, Node: name})
	if err != nil {
		return err
	}
	host, err := volume.NewHost(ctx, root, volume.WithNodeName(name))
	if err != nil {
		return err
	}
	files := content.Config{Mounter: mounter, ConfigMaps: source, Secrets: source, Tokens: source}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, emptydir.New(emptydir.Config{Mounter: mounter}),
		content.NewConfigMap(files), content.NewSecret(files), content.NewDownwardAPI(files), content.NewProjected(files))
	if err != nil {
		return err
	}
	volumes, err := manager.New(manager.Config{Plugins: plugins, Mounter: mounter, Pods: source, Claims: source})
	if err != nil {
		return err
	}
	defer source.SubscribeContent(volumes.MarkRemountRequired)()
	go source.Run(ctx)
	start(volumes)
	return volumes.Run(ctx)
}

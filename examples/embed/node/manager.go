package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// KeepVolumes keeps the volumes of the node's pods mounted: here those of one pod, until
// the source removes it.
func KeepVolumes(ctx context.Context, node Config, pod *v1.Pod) error {
	host, err := volume.NewHost(ctx, node.Root)
	if err != nil {
		return err
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host,
		local.New(local.Config{Mounter: node.Mounter, Roots: []string{node.Disks}}),
		emptydir.New(emptydir.Config{Mounter: node.Mounter}))
	if err != nil {
		return err
	}
	source := manager.NewMemorySource() // or manager/manifests, or an implementation of yours
	volumes, err := manager.New(manager.Config{Plugins: plugins, Mounter: node.Mounter, Pods: source, Claims: source})
	if err != nil {
		return err
	}
	go volumes.Run(ctx)

	source.SetPod(pod)
	if err := volumes.WaitForAttachAndMount(ctx, pod); err != nil {
		return err
	}
	for name, v := range volumes.GetMountedVolumesForPod(pod.UID) {
		fmt.Fprintln(node.Out, name, "is at", strings.TrimPrefix(v.Path, host.Root()))
	}
	source.RemovePod(pod.UID)
	return volumes.WaitForUnmount(ctx, pod)
}

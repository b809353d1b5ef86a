package node

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// KeepVolumes keeps the volumes of the node's pods mounted: here those of one pod, until
// the source removes it.
func KeepVolumes(ctx context.Context, out io.Writer, mounter mount.Interface, root, disks string, pod *v1.Pod) error {
	host, err := volume.NewHost(ctx, root)
	if err != nil {
		return err
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host,
		local.New(local.Config{Mounter: mounter, Roots: []string{disks}}),
		emptydir.New(emptydir.Config{Mounter: mounter}))
	if err != nil {
		return err
	}
	source := manager.NewMemorySource() // or manager/manifests, or an implementation of yours
	volumes, err := manager.New(manager.Config{Plugins: plugins, Mounter: mounter, Pods: source, Claims: source})
	if err != nil {
		return err
	}
	go volumes.Run(ctx)

	source.SetPod(pod)
	if err := volumes.WaitForAttachAndMount(ctx, pod); err != nil {
		return err
	}
	for name, v := range volumes.GetMountedVolumesForPod(pod.UID) {
		fmt.Fprintln(out, name, "is at", strings.TrimPrefix(v.Path, host.Root()))
	}
	source.RemovePod(pod.UID)
	return volumes.WaitForUnmount(ctx, pod)
}

package node

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// A Config describes the node. Root must exist: volumes appear below it in the kubelet's layout.
type Config struct {
	Mounter mount.Interface
	Root    string
	Disks   string    // the directory of the local volumes
	Out     io.Writer // receives the paths of the volumes
}

// MountVolume mounts a local volume for a pod, and unmounts it again.
func MountVolume(ctx context.Context, node Config, pv *v1.PersistentVolume, pod *v1.Pod) error {
	host, err := volume.NewHost(ctx, node.Root)
	if err != nil {
		return err
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host,
		local.New(local.Config{Mounter: node.Mounter, Roots: []string{node.Disks}}))
	if err != nil {
		return err
	}
	spec := volume.NewSpecFromPersistentVolume(pv, true) // true: read-only
	plugin, err := plugins.FindPluginBySpec(spec)
	if err != nil {
		return err
	}
	mounting, err := plugin.NewMounter(spec, pod)
	if err != nil {
		return err
	}
	if err := mounting.SetUp(ctx, volume.MounterArgs{}); err != nil {
		return err
	}
	fmt.Fprintln(node.Out, "mounted at", strings.TrimPrefix(mounting.GetPath(), host.Root()))

	unmounting, err := plugin.NewUnmounter(spec.Name(), pod.UID)
	if err != nil {
		return err
	}
	return unmounting.TearDown(ctx)
}

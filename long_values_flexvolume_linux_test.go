package volumekit_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/flexvolume"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const longDriver = "example.com/long"

// flexConfig returns the configuration for a driver that fails with its arguments as the message.
func flexConfig(t *testing.T, m mount.Interface) flexvolume.Config {
	t.Helper()
	dir := t.TempDir()
	driver := filepath.Join(dir, "example.com~long")
	require.NoError(t, os.Mkdir(driver, 0o755))
	text := "#!/bin/sh\n[ $1 = init ] && echo '{\"status\": \"Success\"}' || echo \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(driver, "long"), []byte(text), 0o755))
	return flexvolume.Config{Driver: longDriver, Dir: dir, Mounter: m}
}

// addFlexvolume adds the functions of package flexvolume that other plugins do not have.
func addFlexvolume(t *testing.T, calls map[string]func(context.Context) error, dir, long string) {
	t.Helper()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	config := flexConfig(t, mounttest.NewFake(mount.Config{}))
	plugin := flexvolume.New(config)
	mgr, err := volume.NewVolumePluginMgr(t.Context(), host, plugin)
	require.NoError(t, err)
	attacher, err := plugin.NewAttacher()
	require.NoError(t, err)
	detacher, err := plugin.NewDetacher()
	require.NoError(t, err)
	devices, err := plugin.NewDeviceMounter()
	require.NoError(t, err)
	unmounter, err := plugin.NewDeviceUnmounter()
	require.NoError(t, err)
	specs := specsOf(dir, long)
	spec := specs["a Flexvolume"]
	short := volume.NewSpecFromVolume(&v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: longDriver}}})
	for name, call := range map[string]func(ctx context.Context) error{
		"Plugin.CanAttach": func(ctx context.Context) error {
			_, err := plugin.CanAttach(ctx, specs["a Flexvolume with a key"])
			return err
		},
		"Plugin.CanDeviceMount":     func(ctx context.Context) error { _, err := plugin.CanDeviceMount(ctx, spec); return err },
		"Plugin.GetDeviceMountRefs": func(ctx context.Context) error { _, err := plugin.GetDeviceMountRefs(ctx, long); return err },
		"Plugin.ExpandVolumeDevice": func(ctx context.Context) error {
			_, err := plugin.ExpandVolumeDevice(ctx, volume.ExpandRequest{Spec: spec})
			return err
		},
		"Plugin.NodeExpand": func(ctx context.Context) error {
			_, err := plugin.NodeExpand(ctx, volume.NodeResizeOptions{Spec: short, DevicePath: long, DeviceMountPath: long})
			return err
		},
		"attacher.Attach": func(ctx context.Context) error { _, err := attacher.Attach(ctx, spec, "n"); return err },
		"attacher.Attach node": func(ctx context.Context) error {
			_, err := attacher.Attach(ctx, short, types.NodeName(long))
			return err
		},
		"attacher.WaitForAttach": func(ctx context.Context) error { _, err := attacher.WaitForAttach(ctx, short, long, nil); return err },
		"attacher.VolumesAreAttached": func(ctx context.Context) error {
			_, err := attacher.VolumesAreAttached(ctx, []*volume.Spec{spec}, "n")
			return err
		},
		"attacher.Detach": func(ctx context.Context) error {
			return detacher.Detach(ctx, volume.DetachRequest{VolumeName: long, Node: "n"})
		},
		"attacher.Detach node": func(ctx context.Context) error {
			return detacher.Detach(ctx, volume.DetachRequest{VolumeName: "v", Node: types.NodeName(long)})
		},
		"deviceMounter.MountDevice": func(ctx context.Context) error {
			return devices.MountDevice(ctx, spec, long, volume.DeviceMounterArgs{})
		},
		"deviceMounter.MountDevice path": func(ctx context.Context) error {
			return devices.MountDevice(ctx, short, host.Root()+"/"+long, volume.DeviceMounterArgs{DevicePath: long})
		},
		"deviceMounter.UnmountDevice": func(ctx context.Context) error { return unmounter.UnmountDevice(ctx, long) },
		"Discover": func(ctx context.Context) error {
			_, err := flexvolume.Discover(ctx, mgr, flexvolume.Config{Dir: long, Mounter: config.Mounter})
			return err
		},
		"Watch": func(ctx context.Context) error {
			return flexvolume.Watch(ctx, mgr, flexvolume.Config{Dir: "x" + long, Mounter: config.Mounter}, nil)
		},
	} {
		calls["flexvolume."+name] = call
	}
}

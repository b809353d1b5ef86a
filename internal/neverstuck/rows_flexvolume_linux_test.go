package neverstuck

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/flexvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

const flexDriver = "example.com/bind"

// flexScript is a driver that binds the directory disk of $DISKS.
const flexScript = `#!/bin/sh
case $1 in
init) echo '{"status": "Success", "capabilities": {"attach": false, "supportsMetrics": true}}' ;;
mount) mount --bind "$DISKS/disk" "$2" >&2 && echo '{"status": "Success"}' ;;
unmount) umount "$2" >&2 && echo '{"status": "Success"}' ;;
*) echo '{"status": "Not supported"}' ;;
esac
`

// flexConfig installs the driver in the directory with the sources of volumes. Another process writes the executable: one
// that this process starts meanwhile would keep it open for writing, and it would not run.
func (r *rig) flexConfig() flexvolume.Config {
	dir := r.disks + "/drivers"
	executable := filepath.Join(dir, "example.com~bind", "bind")
	if _, err := os.Lstat(executable); err != nil {
		require.NoError(r, os.MkdirAll(filepath.Dir(executable), 0o755))
		install := exec.Command("sh", "-c", `cat >"$0" && chmod 755 "$0"`, executable)
		install.Stdin = strings.NewReader(flexScript)
		require.NoError(r, install.Run())
	}
	return flexvolume.Config{Driver: flexDriver, Dir: dir, Mounter: r.mounter, Env: []string{"DISKS=" + r.disks}}
}

// rowsOfFlexvolume returns the rows of the abilities that other plugins do not have: the file system with the driver, or
// with the device mount, hangs.
func rowsOfFlexvolume() map[string]row {
	plugin := func(r *rig) *flexvolume.Plugin {
		p, err := r.mgr.FindPluginByName(flexDriver)
		require.NoError(r, err)
		return p.(*flexvolume.Plugin)
	}
	devicePath := func(r *rig) string { return r.root + "/plugins/kubernetes.io/flexvolume/example.com/bind/mounts/vol" }
	spec := volumeSpec(v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: flexDriver}})
	all := map[string]row{}
	for name, call := range map[string]func(ctx context.Context, r *rig, p *flexvolume.Plugin) error{
		"Plugin.CanAttach": func(ctx context.Context, _ *rig, p *flexvolume.Plugin) error {
			_, err := p.CanAttach(ctx, spec)
			return err
		},
		"Plugin.CanDeviceMount": func(ctx context.Context, _ *rig, p *flexvolume.Plugin) error {
			_, err := p.CanDeviceMount(ctx, spec)
			return err
		},
		"Plugin.GetDeviceMountRefs": func(ctx context.Context, r *rig, p *flexvolume.Plugin) error {
			_, err := p.GetDeviceMountRefs(ctx, devicePath(r))
			return err
		},
		"Plugin.ExpandVolumeDevice": func(ctx context.Context, _ *rig, p *flexvolume.Plugin) error {
			_, err := p.ExpandVolumeDevice(ctx, volume.ExpandRequest{Spec: spec})
			return err
		},
		"Plugin.NodeExpand": func(ctx context.Context, _ *rig, p *flexvolume.Plugin) error {
			_, err := p.NodeExpand(ctx, volume.NodeResizeOptions{Spec: spec})
			return err
		},
		"attacher.Attach": func(ctx context.Context, r *rig, p *flexvolume.Plugin) error {
			a, err := p.NewAttacher()
			require.NoError(r, err)
			_, err = a.Attach(ctx, spec, "node")
			return err
		},
		"attacher.WaitForAttach": func(ctx context.Context, r *rig, p *flexvolume.Plugin) error {
			a, err := p.NewAttacher()
			require.NoError(r, err)
			_, err = a.WaitForAttach(ctx, spec, "", nil)
			return err
		},
		"attacher.VolumesAreAttached": func(ctx context.Context, r *rig, p *flexvolume.Plugin) error {
			a, err := p.NewAttacher()
			require.NoError(r, err)
			_, err = a.VolumesAreAttached(ctx, []*volume.Spec{spec}, "node")
			return err
		},
		"attacher.Detach": func(ctx context.Context, r *rig, p *flexvolume.Plugin) error {
			d, err := p.NewDetacher()
			require.NoError(r, err)
			return d.Detach(ctx, volume.DetachRequest{VolumeName: "vol", Node: "node"})
		},
		"deviceMounter.MountDevice": func(ctx context.Context, r *rig, p *flexvolume.Plugin) error {
			m, err := p.NewDeviceMounter()
			require.NoError(r, err)
			return m.MountDevice(ctx, spec, devicePath(r), volume.DeviceMounterArgs{})
		},
		"deviceMounter.UnmountDevice": func(ctx context.Context, r *rig, p *flexvolume.Plugin) error {
			u, err := p.NewDeviceUnmounter()
			require.NoError(r, err)
			return u.UnmountDevice(ctx, devicePath(r))
		},
	} {
		all["flexvolume."+name] = func(r *rig) func(context.Context) error {
			p := plugin(r)
			return func(ctx context.Context) error { return call(ctx, r, p) }
		}
	}
	all["flexvolume.Discover"] = none(func(ctx context.Context, r *rig) error {
		_, err := flexvolume.Discover(ctx, r.mgr, r.flexConfigOf())
		return err
	})
	all["flexvolume.Watch"] = none(func(ctx context.Context, r *rig) error {
		return flexvolume.Watch(ctx, r.mgr, r.flexConfigOf(), nil)
	})
	return all
}

// flexConfigOf returns the configuration without a query of the file system.
func (r *rig) flexConfigOf() flexvolume.Config {
	return flexvolume.Config{Dir: r.disks + "/drivers", Mounter: r.mounter}
}

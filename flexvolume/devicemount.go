package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CanDeviceMount reports whether the driver has the capability attach: then its volumes are mounted once per node.
// A driver that is not installed is a transient error that wraps [ErrNoDriver].
func (p *Plugin) CanDeviceMount(ctx context.Context, spec *volume.Spec) (_ bool, err error) {
	defer brief.Shorten(&err)
	if _, err := p.sourceOf(spec); err != nil {
		return false, err
	}
	d, err := p.current(ctx)
	if err != nil {
		return false, err
	}
	return d.Attach, nil
}

// NewDeviceMounter returns the mounter of all volumes of the driver.
func (p *Plugin) NewDeviceMounter() (volume.DeviceMounter, error) { return p.deviceMounter() }

// NewDeviceUnmounter returns the unmounter of all volumes of the driver.
func (p *Plugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) { return p.deviceMounter() }

func (p *Plugin) deviceMounter() (*deviceMounter, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	return &deviceMounter{p}, nil
}

// GetDeviceMountRefs returns the other mount points of the mount at deviceMountPath; for a missing path
// the list is empty.
func (p *Plugin) GetDeviceMountRefs(ctx context.Context, deviceMountPath string) ([]string, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	return p.mounts.DeviceMountRefs(ctx, deviceMountPath)
}

func (p *Plugin) deviceMountPath(s source) string { return path.Join(p.mountsDir, s.name) }

type deviceMounter struct{ plugin *Plugin }

// GetDeviceMountPath implements [volume.DeviceMounter]:
// <root>/plugins/kubernetes.io/flexvolume/<vendor>/<driver>/mounts/<volume>.
func (m *deviceMounter) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	s, err := m.plugin.sourceOf(spec)
	if err != nil {
		return "", err
	}
	return m.plugin.deviceMountPath(s), nil
}

// MountDevice implements [volume.DeviceMounter]: it calls mountdevice. For a driver without the operation it formats
// the device if it is blank, and mounts it; without a device it does nothing, since the driver's mount does it all.
// If the volume was mounted there with another read-only specification the error wraps [volume.ErrAlreadyMounted]; a mount
// that a kubelet has made is not compared. FsGroup has no effect here, as in Kubernetes.
func (m *deviceMounter) MountDevice(ctx context.Context, spec *volume.Spec, deviceMountPath string, args volume.DeviceMounterArgs) (err error) {
	defer brief.Shorten(&err)
	p := m.plugin
	source, err := p.sourceOf(spec)
	if err != nil {
		return err
	}
	if args.SELinuxLabel != "" {
		return fmt.Errorf("DeviceMounterArgs.SELinuxLabel for a Flexvolume: %w", volume.ErrNotSupported)
	}
	if err := checkDevice(field.NewPath("args", "devicePath"), args.DevicePath); err != nil {
		return err
	}
	if _, err := p.mounts.Below(field.NewPath("deviceMountPath"), deviceMountPath); err != nil {
		return err
	}
	d, err := p.current(ctx)
	if err != nil {
		return err
	}
	w := mounting{driver: d, readOnly: source.readOnly}
	w.mountAt = func(ctx context.Context, dir string) error {
		_, err := p.call(ctx, d, call{operation: "mountdevice", key: dir, args: []string{dir, args.DevicePath, p.optionsOf(source)}})
		switch {
		case !errors.Is(err, errNotSupported):
			return err
		case args.DevicePath == "":
			return errNoDevice
		}
		return p.formatAndMount(ctx, source, args.DevicePath, dir)
	}
	err = m.placementAt(deviceMountPath).ensureMounted(ctx, w)
	if errors.Is(err, errNoDevice) && volume.KindOf(err) != volume.Uncertain {
		return nil
	}
	return err
}

// errNoDevice ends a MountDevice that has nothing to mount, and has changed nothing.
var errNoDevice = errors.New("neither a device nor an operation mountdevice")

func (m *deviceMounter) placementAt(dir string) placement {
	return placement{m.plugin, dir, "unmountdevice"}
}

func (p *Plugin) formatAndMount(ctx context.Context, s source, device, dir string) error {
	req := disk.MountRequest{Device: device, Target: dir, FSType: s.fsType}
	if s.readOnly {
		req.Options = []string{"ro"}
	}
	err := p.disks.FormatAndMount(ctx, req)
	if errors.Is(err, mount.ErrUncertain) {
		return volume.AsUncertain(err)
	}
	return util.Transient(err)
}

// UnmountDevice implements [volume.DeviceUnmounter]: it calls unmountdevice if the directory exists, and then
// removes the mounts that are left. The caller has unmounted the volume of all pods.
func (m *deviceMounter) UnmountDevice(ctx context.Context, deviceMountPath string) (err error) {
	defer brief.Shorten(&err)
	return m.placementAt(deviceMountPath).ensureUnmounted(ctx)
}

package local

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/diskprobe"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CanDeviceMount reports whether the volume's path is, or leads to, a block device. If the
// volume had a device before and its path is missing now, the error is transient and wraps
// [ErrDeviceGone]; for a link that is not followed it wraps [ErrLink].
//
// If ctx ends before the device has answered, the error is transient and wraps ctx.Err()
// and the cause.
func (p *Plugin) CanDeviceMount(ctx context.Context, spec *volume.Spec) (_ bool, err error) {
	defer brief.Shorten(&err)
	v, err := p.deviceVolume(spec)
	if err != nil || spec.IsBlock() {
		return false, err
	}
	_, isDevice, err := v.findNodeInTime(ctx)
	return isDevice && err == nil, err
}

// NewDeviceMounter returns the mounter of all volumes on devices.
func (p *Plugin) NewDeviceMounter() (volume.DeviceMounter, error) { return p.deviceMounter() }

// NewDeviceUnmounter returns the unmounter of all volumes on devices.
func (p *Plugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) { return p.deviceMounter() }

func (p *Plugin) deviceMounter() (*deviceMounter, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	return &deviceMounter{p}, nil
}

// GetDeviceMountRefs returns the other mount points of the mount at deviceMountPath; for a
// missing path the list is empty.
func (p *Plugin) GetDeviceMountRefs(ctx context.Context, deviceMountPath string) ([]string, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	return p.mounts.DeviceMountRefs(ctx, deviceMountPath)
}

// pluginPath returns a path in the plugin's directory.
func (p *Plugin) pluginPath(kind, name string) (string, error) {
	if p.host == nil {
		return "", errNotInitialised
	}
	if err := checkRecordName(name); err != nil {
		return "", err
	}
	dir, err := p.host.PluginDir(PluginName)
	return path.Join(dir, kind, name), err
}

const mountsDir = "mounts"

type deviceMounter struct{ plugin *Plugin }

// GetDeviceMountPath implements [volume.DeviceMounter]:
// <root>/plugins/kubernetes.io/local-volume/mounts/<volume>.
func (m *deviceMounter) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	if err := m.plugin.check(spec); err != nil {
		return "", err
	}
	return m.plugin.pluginPath(mountsDir, spec.Name())
}

// MountDevice implements [volume.DeviceMounter]. It formats a blank device with the volume's
// fsType (by default ext4), unless the volume, this use of it or the device is read-only. A
// file system of that type is checked, fsck -a, and refused with [ErrFileSystemDamaged] if
// errors are left. A device that is smaller than its file system is refused with
// [ErrDeviceTooSmall], a read-only device whose journal has to be replayed with
// [ErrFileSystemDirty]. A device with any other content is refused with a [*DeviceError] that
// wraps a [*ContentError] or one of the errors of this package. For a directory MountDevice
// does nothing. FsGroup has no effect here, as in Kubernetes: SetUp gives the volume to the
// group.
//
// If ctx ends while a program writes to the device the program is killed, and the error
// wraps [volume.ErrUncertain]. The same call then starts again.
func (m *deviceMounter) MountDevice(ctx context.Context, spec *volume.Spec, deviceMountPath string, args volume.DeviceMounterArgs) error {
	v, err := m.plugin.deviceVolume(spec)
	if err == nil {
		err = m.plugin.checkMounted(spec)
	}
	if err == nil {
		err = checkDeviceArgs(args)
	}
	if err != nil {
		return err
	}
	if _, err := m.plugin.mounts.Below(field.NewPath("deviceMountPath"), deviceMountPath); err != nil {
		return err
	}
	return m.plugin.mounts.Exclusively(ctx, deviceMountPath, func(ctx context.Context, dir string) error {
		return v.mountAt(ctx, dir)
	})
}

func checkDeviceArgs(args volume.DeviceMounterArgs) error {
	if args.SELinuxLabel != "" {
		return fmt.Errorf("DeviceMounterArgs.SELinuxLabel for a local volume: %w", volume.ErrNotSupported)
	}
	return nil
}

func (v *deviceVolume) mountAt(ctx context.Context, dir string) error {
	_, isDevice, err := v.findNode()
	if err == nil && !isDevice {
		return nil // a directory
	}
	if err != nil {
		return err
	}
	return v.use(ctx, func(ctx context.Context, d *disk.Device) error { return v.mountDeviceAt(ctx, dir, d) })
}

func (v *deviceVolume) mountDeviceAt(ctx context.Context, dir string, d *disk.Device) error {
	if d.Info().ReadOnly && !v.usedRO {
		return v.failed(ErrDeviceReadOnly)
	}
	at, _, err := v.plugin.mounts.At(ctx, dir)
	switch {
	case err == nil:
		return v.mountedAlready(ctx, at, d.Info())
	case !errors.Is(err, volume.ErrNotMounted):
		return err
	}
	return v.mountFirst(ctx, dir, d)
}

// mountedAlready verifies that an existing mount is of this device; the mounter compares the
// rest.
func (v *deviceVolume) mountedAlready(ctx context.Context, at mount.Info, info disk.Info) error {
	if err := v.checkSource(at, info); err != nil {
		return err
	}
	fsType := v.fsType
	if fsType == "" {
		fsType = at.FSType
	}
	return v.plugin.mounts.Mount(ctx, at.Mountpoint, mount.Request{
		Source: info.Path, FSType: fsType, Options: v.mountOptions(info.ReadOnly),
	})
}

// checkSource fails if the mount is of another device.
func (v *deviceVolume) checkSource(at mount.Info, info disk.Info) error {
	is, err := v.isOf(at, info)
	if err == nil && !is {
		err = fmt.Errorf("%w: %s is mounted at %s, and the volume is %s", ErrDeviceSwapped, at.Source, at.Mountpoint, info.Path)
	}
	return v.failed(err)
}

// checkNode calls checkSource with the device at a path.
func (v *deviceVolume) checkNode(ctx context.Context, at mount.Info, node string) error {
	info, err := v.plugin.disks.Identify(ctx, node)
	if err != nil {
		return v.failed(util.Transient(err))
	}
	return v.checkSource(at, info)
}

// isOf compares device numbers; for a file system with a number of its own, such as btrfs,
// the record of its mount. The mount's source may be an old name of the device.
func (v *deviceVolume) isOf(at mount.Info, info disk.Info) (bool, error) {
	switch {
	case info.Number == 0:
		return at.Source == info.Path, nil
	case at.Major != 0:
		return at.Major == info.Major && at.Minor == info.Minor, nil
	}
	rec, err := v.plugin.records.read(v.name)
	switch {
	case err != nil:
		return false, err
	case rec == nil:
		return at.Source == info.Path, nil
	case rec.Disk.IsOther(info.Identity):
		return false, nil
	}
	return at.Source == info.Path || rec.Disk.IsSame(info.Identity), nil
}

// mountFirst mounts a device that is not mounted. The claim keeps other volumes from the
// device, from its partitions and from its disk.
func (v *deviceVolume) mountFirst(ctx context.Context, dir string, d *disk.Device) error {
	if err := d.Claim(ctx); err != nil {
		return v.failed(util.Transient(err))
	}
	used, err := d.InUse(ctx, "")
	if err != nil {
		return v.failed(util.Transient(err))
	}
	rec, err := v.plugin.records.read(v.name)
	if err != nil {
		return v.failed(err)
	}
	if used {
		return v.failed(v.mountAgain(ctx, dir, d, rec))
	}
	c, err := d.Probe(ctx)
	if err != nil {
		return v.failed(util.Transient(err))
	}
	s, err := plan(v.situation(c, rec))
	if err == nil {
		err = v.mountFormatted(ctx, dir, d, s, rec)
	}
	return v.failed(err)
}

// situation returns the facts for the plan. The marker of another volume's format counts as
// data.
func (v *deviceVolume) situation(c disk.Content, rec *record) situation {
	found := c.Found
	if c.Marker != "" {
		found = append(found, diskprobe.Found{Name: "data", Kind: diskprobe.Data})
	}
	return situation{
		uid: v.uid, fsType: v.fsType, readOnly: v.usedRO || c.ReadOnly, size: c.Size, disk: c.Identity, found: found, record: rec,
		marked: rec != nil && rec.State == stateFormatting && c.Marker == rec.FSUUID,
	}
}

// UnmountDevice implements [volume.DeviceUnmounter]. While a pod still has a mount of the
// device nothing changes, and the error wraps [ErrDeviceInUse]. After the unmount it also
// wraps [ErrDeviceInUse] while the kernel keeps the file system: because of a detached mount
// with an open file, or of another mount namespace.
func (m *deviceMounter) UnmountDevice(ctx context.Context, deviceMountPath string) error {
	if err := ctx.Err(); err != nil {
		return util.Transient(context.Cause(ctx))
	}
	return m.plugin.mounts.Exclusively(ctx, deviceMountPath, func(ctx context.Context, dir string) error {
		if err := m.plugin.checkUnused(ctx, dir); err != nil {
			return err
		}
		if err := m.plugin.mounts.Unmount(ctx, dir); err != nil {
			return err
		}
		return m.plugin.checkReleased(ctx, dir)
	})
}

func (p *Plugin) checkUnused(ctx context.Context, dir string) error {
	err := p.mounts.CheckMounted(ctx, dir)
	if errors.Is(err, volume.ErrNotMounted) {
		return nil
	}
	if err != nil {
		return err
	}
	refs, err := p.config.Mounter.MountRefs(ctx, dir)
	if err != nil {
		return util.Transient(err)
	}
	if i := slices.IndexFunc(refs, p.mounts.IsTarget); i >= 0 {
		return util.Transient(fmt.Errorf("unmount %s: %w: mounted at %s", dir, ErrDeviceInUse, refs[i]))
	}
	return nil
}

// Forget removes the record of the device of a volume that is not in use, so that another
// device may take its place: a blank one is formatted then. It is for a device that is
// exchanged on purpose, and for deleted volumes. Forget is idempotent. A volume that is
// mounted, mapped for a pod or held is [ErrDeviceInUse].
func (p *Plugin) Forget(ctx context.Context, volumeName string) error {
	dir, err := p.pluginPath(mountsDir, volumeName)
	if err != nil {
		return err
	}
	raw, err := p.pluginPath(devicesDir, volumeName)
	if err != nil {
		return err
	}
	return p.mounts.Exclusively(ctx, dir, func(ctx context.Context, dir string) error {
		return p.mounts.Exclusively(ctx, raw, func(ctx context.Context, raw string) error {
			return p.forget(ctx, volumeName, dir, raw)
		})
	})
}

func (p *Plugin) forget(ctx context.Context, volumeName, dir, raw string) error {
	inUse := util.Transient(fmt.Errorf("forget %s: %w", volumeName, ErrDeviceInUse))
	err := p.mounts.CheckMounted(ctx, dir)
	switch {
	case err == nil:
		return inUse
	case !errors.Is(err, volume.ErrNotMounted):
		return err
	}
	pods, err := p.entries(raw)
	if err != nil {
		return util.Transient(err)
	}
	held, err := p.isHeldFor(ctx, volumeName)
	switch {
	case err != nil:
		return util.Transient(err)
	case held || len(pods) > 0:
		return inUse
	}
	return p.records.remove(volumeName)
}

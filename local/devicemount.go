package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CanDeviceMount reports whether the volume's path is, or leads to, a block device.
// One that had a device before and has none now is a transient error that wraps
// [ErrDeviceGone]; a link that is not followed, [ErrLink].
func (p *Plugin) CanDeviceMount(spec *volume.Spec) (bool, error) {
	v, err := p.deviceVolume(spec)
	if err != nil || spec.IsBlock() {
		return false, err
	}
	_, is, err := v.look()
	return is && err == nil, err
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

// GetDeviceMountRefs returns the other mount points of what is mounted at
// deviceMountPath; of a path that is missing there are none.
func (p *Plugin) GetDeviceMountRefs(ctx context.Context, deviceMountPath string) ([]string, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	dir, err := p.mounts.Below(field.NewPath("deviceMountPath"), deviceMountPath)
	if err != nil {
		return nil, err
	}
	refs, err := p.config.Mounter.MountRefs(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // as a run leaves it that was killed before it mounted, or after it unmounted
	}
	if err != nil {
		return nil, util.Transient(err)
	}
	return refs, nil
}

// pluginPath returns a place in the plugin's directory.
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
// <root>/plugins/kubernetes.io~local-volume/mounts/<volume>.
func (m *deviceMounter) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	if err := m.plugin.check(spec); err != nil {
		return "", err
	}
	return m.plugin.pluginPath(mountsDir, spec.Name())
}

// MountDevice implements [volume.DeviceMounter]. A device that is blank is formatted
// first, as the volume's fsType says (by default ext4), unless the volume, this use
// of it or the device is read-only; one with a file system of that type is checked,
// fsck -a, and refused with [ErrFileSystemDamaged] if that is not enough; any other is refused, with a [*DeviceError] that wraps a [*ContentError]
// or one of the errors of this package. For a directory there is nothing to do.
// FsGroup has no effect here, as in Kubernetes: SetUp gives the volume to the group.
//
// If ctx ends while something is written to the device the programs that do so are
// killed, and the error wraps [volume.ErrUncertain]. The same call begins again then.
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
	return inTime(ctx, func() error {
		return m.plugin.mounts.Exclusively(ctx, deviceMountPath, func(dir string) error {
			return v.mountAt(ctx, dir)
		})
	})
}

func checkDeviceArgs(args volume.DeviceMounterArgs) error {
	if args.SELinuxLabel != "" {
		return fmt.Errorf("DeviceMounterArgs.SELinuxLabel for a local volume: %w", volume.ErrNotSupported)
	}
	return nil
}

func (v *deviceVolume) mountAt(ctx context.Context, dir string) error {
	_, is, err := v.look()
	if err == nil && !is {
		return nil // a directory
	}
	if err != nil {
		return err
	}
	d, err := v.open()
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if d.facts().readOnly && !v.usedRO {
		return v.failed(ErrDeviceReadOnly)
	}
	at, _, err := v.plugin.mounts.At(ctx, dir)
	switch {
	case err == nil:
		return v.mountedAlready(ctx, at, d.facts())
	case !errors.Is(err, volume.ErrNotMounted):
		return err
	}
	return v.mountFirst(ctx, dir, d)
}

// mountedAlready lets the mounter compare, if it is of this device.
func (v *deviceVolume) mountedAlready(ctx context.Context, at mount.Info, facts diskFacts) error {
	if err := v.checkSource(at, facts); err != nil {
		return err
	}
	fsType := v.fsType
	if fsType == "" {
		fsType = at.FSType
	}
	return v.plugin.mounts.Mount(ctx, at.Mountpoint, mount.Request{
		Source: facts.node, FSType: fsType, Options: v.mountOptions(facts.readOnly),
	})
}

// checkSource fails if what is mounted is of another device.
func (v *deviceVolume) checkSource(at mount.Info, facts diskFacts) error {
	is, err := v.isOf(at, facts)
	if err == nil && !is {
		err = fmt.Errorf("%w: %s is mounted at %s, and the volume is %s", ErrDeviceSwapped, at.Source, at.Mountpoint, facts.node)
	}
	return v.failed(err)
}

// checkNode is checkSource of what is at a path by now.
func (v *deviceVolume) checkNode(at mount.Info, node string) error {
	facts, err := v.plugin.devices.identify(node)
	if err != nil {
		return v.failed(util.Transient(err))
	}
	return v.checkSource(at, facts)
}

// isOf compares numbers, or where the mount's is no device's, as of btrfs, what was
// recorded when it was mounted. The source is how the device was called then.
func (v *deviceVolume) isOf(at mount.Info, facts diskFacts) (bool, error) {
	switch {
	case facts.number == 0:
		return at.Source == facts.node, nil
	case at.Major != 0:
		return at.Major == facts.major && at.Minor == facts.minor, nil
	}
	rec, err := v.plugin.records.read(v.name)
	switch {
	case err != nil:
		return false, err
	case rec == nil:
		return at.Source == facts.node, nil
	case rec.Disk.isOther(facts.identity):
		return false, nil
	}
	return at.Source == facts.node || rec.Disk.same(facts.identity), nil
}

// take keeps other volumes from taking the same device into use at the same time, or a
// part of it, or what it is a part of.
func (v *deviceVolume) take(ctx context.Context, d disk) (done func(), err error) {
	var taken []func()
	done = func() {
		for _, unlock := range taken {
			unlock()
		}
	}
	for _, part := range d.facts().parts {
		unlock, err := v.plugin.taking.Lock(ctx, part)
		if err != nil {
			done()
			return nil, v.failed(util.Transient(err))
		}
		taken = append(taken, unlock)
	}
	return done, nil
}

func (v *deviceVolume) mountFirst(ctx context.Context, dir string, d disk) error {
	done, err := v.take(ctx, d)
	if err != nil {
		return err
	}
	defer done()
	used, err := d.inUse("")
	if err != nil {
		return v.failed(util.Transient(err))
	}
	if used {
		return v.failed(util.Transient(ErrDeviceInUse))
	}
	rec, err := v.plugin.records.read(v.name)
	if err != nil {
		return v.failed(err)
	}
	facts := d.facts()
	begun := ""
	if rec != nil && rec.State == stateFormatting {
		begun = rec.FSUUID
	}
	found, marked, err := probe(d, begun)
	if err != nil {
		return v.failed(util.Transient(err))
	}
	if marked {
		found = append(found, theMarker)
	}
	v.found = found
	s, err := plan(situation{
		uid: v.uid, fsType: v.fsType, readOnly: v.usedRO || facts.readOnly,
		disk: facts.identity, found: v.found, record: rec, marked: marked,
	})
	if err == nil {
		err = v.mountFormatted(ctx, dir, d, s, rec)
	}
	return v.failed(err)
}

// UnmountDevice implements [volume.DeviceUnmounter]. While the device is mounted
// elsewhere, too, for a pod, it stays, and the error wraps [ErrDeviceInUse].
func (m *deviceMounter) UnmountDevice(ctx context.Context, deviceMountPath string) error {
	if err := ctx.Err(); err != nil {
		return util.Transient(context.Cause(ctx))
	}
	return m.plugin.mounts.Exclusively(ctx, deviceMountPath, func(dir string) error {
		if err := m.plugin.checkUnused(ctx, dir); err != nil {
			return err
		}
		return m.plugin.mounts.Unmount(ctx, dir)
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
	inRoot := func(ref string) bool { return strings.HasPrefix(ref, p.host.Root()+"/") }
	if i := slices.IndexFunc(refs, inRoot); i >= 0 {
		return util.Transient(fmt.Errorf("unmount %s: %w: it is mounted at %s", dir, ErrDeviceInUse, refs[i]))
	}
	return nil
}

// Forget removes what is remembered of the device of a volume that is not in use, so
// that another one may take its place: one that is blank is formatted then. It is
// for who swaps a device on purpose, and for volumes that are deleted. A volume of
// which nothing is remembered is no error; one that is mounted, or raw for a pod or
// held for one, is [ErrDeviceInUse].
func (p *Plugin) Forget(ctx context.Context, volumeName string) error {
	dir, err := p.pluginPath(mountsDir, volumeName)
	if err != nil {
		return err
	}
	raw, err := p.pluginPath(devicesDir, volumeName)
	if err != nil {
		return err
	}
	return p.mounts.Exclusively(ctx, dir, func(dir string) error {
		return p.mounts.Exclusively(ctx, raw, func(raw string) error {
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
	held, err := p.isHeldFor(volumeName)
	switch {
	case err != nil:
		return util.Transient(err)
	case held || len(pods) > 0:
		return inUse
	}
	return p.records.remove(volumeName)
}

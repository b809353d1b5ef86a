package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// A deviceMounter mounts a disk once for all pods of the node, on a loop device.
type deviceMounter struct{ *plugin }

// NewDeviceMounter implements [volume.DeviceMountableVolumePlugin].
func (p *plugin) NewDeviceMounter() (volume.DeviceMounter, error) { return deviceMounter{p}, nil }

// NewDeviceUnmounter implements [volume.DeviceMountableVolumePlugin].
func (p *plugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) { return deviceMounter{p}, nil }

// CanDeviceMount implements [volume.DeviceMountableVolumePlugin].
func (p *plugin) CanDeviceMount(context.Context, *volume.Spec) (bool, error) { return true, nil }

// GetDeviceMountRefs implements [volume.DeviceMountableVolumePlugin].
func (p *plugin) GetDeviceMountRefs(ctx context.Context, deviceMountPath string) ([]string, error) {
	refs, err := p.mounter.MountRefs(ctx, deviceMountPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return refs, util.Transient(err)
}

// GetDeviceMountPath implements [volume.DeviceMounter]. The last element is the name of the disk.
func (m deviceMounter) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	name, err := m.GetVolumeName(spec)
	if err != nil {
		return "", err
	}
	dir, err := m.host.PluginDir(pluginName)
	return filepath.Join(dir, "mounts", name), err
}

// VerifiesDeviceUse implements [volume.DeviceUseVolumePlugin].
func (p *plugin) VerifiesDeviceUse() bool { return true }

// fileSystems are those that grow while they are mounted.
var fileSystems = []string{"", "ext3", "ext4", "xfs", "btrfs"} // "": the default of package disk

// MountDevice implements [volume.DeviceMounter]. It formats a blank disk, and grows a file system that is smaller
// than its disk. If it fails it takes the disk down, unless the disk was mounted before.
func (m deviceMounter) MountDevice(ctx context.Context, spec *volume.Spec, deviceMountPath string, args volume.DeviceMounterArgs) error {
	name, err := m.GetVolumeName(spec)
	switch {
	case err != nil:
		return err
	case args.SELinuxLabel != "":
		return fmt.Errorf("DeviceMounterArgs.SELinuxLabel for a disk: %w", volume.ErrNotSupported)
	}
	if fsType := spec.PersistentVolume.Spec.FlexVolume.FSType; !slices.Contains(fileSystems, fsType) {
		return volume.Invalid(field.NewPath("spec", "flexVolume", "fsType"), fsType, "must be ext3, ext4, xfs or btrfs")
	}
	return m.mounts.Exclusively(ctx, deviceMountPath, func(ctx context.Context, dir string) error {
		before := m.mounts.CheckMounted(ctx, dir)
		isNew := errors.Is(before, volume.ErrNotMounted)
		if before != nil && !isNew {
			return util.Transient(before)
		}
		err := m.mountDisk(ctx, name, dir, spec)
		if err != nil && isNew && volume.KindOf(err) != volume.Uncertain {
			if left := m.takeDown(ctx, name, dir); left != nil {
				err = volume.AsUncertain(errors.Join(err, left))
			}
		}
		if err != nil {
			return fmt.Errorf("mount disk %s: %w", input.Quote(name), err)
		}
		return nil
	})
}

// mountDisk mounts a disk at dir. After an error the disk may have a device, and the node may use it.
func (m deviceMounter) mountDisk(ctx context.Context, name, dir string, spec *volume.Spec) error {
	device, err := m.attachDevice(ctx, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return util.Transient(err)
	}
	options := spec.MountOptions()
	if spec.IsReadOnly() {
		options = append(options, "ro")
	}
	err = m.disks.FormatAndMount(ctx, disk.MountRequest{
		Device: device.Path, Target: dir, FSType: spec.PersistentVolume.Spec.FlexVolume.FSType, Options: options, Grow: true,
	})
	switch {
	case errors.Is(err, mount.ErrUncertain):
		return volume.AsUncertain(err)
	case errors.Is(err, mount.ErrMounted):
		return fmt.Errorf("%w: %w", volume.ErrAlreadyMounted, err)
	}
	return util.Transient(err)
}

// attachDevice begins the use of a disk on this node, and returns its loop device, a new one if it has none. After an
// error the node may use the disk.
func (p *plugin) attachDevice(ctx context.Context, name string) (loop.Device, error) {
	if err := p.store.use(ctx, name, p.node); err != nil {
		return loop.Device{}, err
	}
	device, err := loop.AttachFileDevice(ctx, p.store.image(name), loop.Config{Name: p.deviceName(name)})
	return device, util.Transient(err)
}

// deviceName returns the name that the kernel keeps with the loop device of a disk on this node.
func (p *plugin) deviceName(disk string) string {
	return fmt.Sprintf("disk-%x", sha256.Sum224([]byte(p.node+"/"+disk)))
}

// device returns the loop device of a disk on this node, or loop.ErrNotAttached. A device that has been detached, and that
// a program has open, is errDeviceUsed.
func (p *plugin) device(ctx context.Context, disk string) (loop.Device, error) {
	all, err := loop.List(ctx)
	if err != nil {
		return loop.Device{}, err
	}
	err = loop.ErrNotAttached
	for _, d := range all {
		switch {
		case d.Name != p.deviceName(disk):
		case !d.Ending:
			return d, nil
		default:
			err = errDeviceUsed
		}
	}
	return loop.Device{}, err
}

// UnmountDevice implements [volume.DeviceUnmounter].
func (m deviceMounter) UnmountDevice(ctx context.Context, deviceMountPath string) error {
	return m.mounts.Exclusively(ctx, deviceMountPath, func(ctx context.Context, dir string) error {
		name := filepath.Base(dir)
		if err := m.takeDown(ctx, name, dir); err != nil {
			return fmt.Errorf("unmount disk %s: %w", input.Quote(name), err)
		}
		return nil
	})
}

// errDeviceUsed is the error for a device with another mount, such as one of another mount namespace, and for one that a
// program has open.
var errDeviceUsed = fmt.Errorf("%w: the kernel uses the loop device", volume.ErrFailedPrecondition)

// takeDown unmounts a disk, and detaches its device. It continues what an earlier call has begun.
func (m deviceMounter) takeDown(ctx context.Context, name, dir string) error {
	if err := m.mounts.Unmount(ctx, dir); err != nil {
		return err
	}
	return m.detachDevice(ctx, name)
}

// detachDevice detaches the loop device of a disk, and ends its use on this node. It continues what an earlier call has
// begun. The node uses the disk until no program has the device open and the kernel has written all.
func (p *plugin) detachDevice(ctx context.Context, name string) error {
	device, err := p.device(ctx, name)
	if err == nil {
		err = p.detach(ctx, device)
	}
	if err == nil {
		err = p.checkDetached(ctx, name)
	}
	if err != nil && !errors.Is(err, loop.ErrNotAttached) {
		return util.Transient(err)
	}
	if err := p.store.flush(ctx, name); err != nil {
		return err
	}
	return p.store.release(ctx, name, p.node)
}

// detach detaches a loop device that the kernel does not use.
func (p *plugin) detach(ctx context.Context, device loop.Device) error {
	err := p.disks.Use(ctx, device.Path, func(ctx context.Context, d *disk.Device) error {
		isUsed, err := d.InUse(ctx, "")
		if err == nil && isUsed {
			err = errDeviceUsed
		}
		return err
	})
	if err != nil {
		return err
	}
	return loop.Detach(ctx, device)
}

// checkDetached returns errDeviceUsed for a disk that still has a device.
func (p *plugin) checkDetached(ctx context.Context, name string) error {
	_, err := p.device(ctx, name)
	switch {
	case err == nil:
		return errDeviceUsed
	case errors.Is(err, loop.ErrNotAttached):
		return nil
	}
	return err
}

// releaseUnused ends the use of disks that have no device on this node: after a start of the system no caller
// unmounts them. The driver mounts no disk before releaseUnused has returned.
func (p *plugin) releaseUnused(ctx context.Context) error {
	disks, err := p.store.usedBy(ctx, p.node)
	for _, name := range disks {
		if _, missing := p.device(ctx, name); errors.Is(missing, loop.ErrNotAttached) {
			err = errors.Join(err, p.store.release(ctx, name, p.node))
		}
	}
	return err
}

// NodeExpand implements [volume.NodeExpandableVolumePlugin]: it returns true if the disk has the size, and its device,
// and its file system unless it is raw, have the size of the disk. A disk that is not mounted or raw, or mounted
// read-only, cannot be grown yet.
func (p *plugin) NodeExpand(ctx context.Context, req volume.NodeResizeOptions) (bool, error) {
	path, err := deviceMounter{p}.GetDeviceMountPath(req.Spec)
	if err != nil {
		return false, err
	}
	wanted, err := imageSize(req.NewSize)
	if err != nil {
		return false, err
	}
	result := make(chan int64, 1)
	err = p.mounts.Exclusively(ctx, path, func(ctx context.Context, dir string) error {
		size, err := p.growUsed(ctx, req.Spec, dir)
		result <- size
		return err
	})
	switch {
	case errors.Is(err, loop.ErrNotAttached), errors.Is(err, mount.ErrNotMounted), errors.Is(err, disk.ErrReadOnly):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("grow disk %s: %w", input.Quote(req.Spec.Name()), err)
	}
	return <-result >= wanted, nil
}

// growUsed grows the device of a disk to the size of its image, and the file system that is mounted at dir unless the
// disk is raw. It returns the size.
func (p *plugin) growUsed(ctx context.Context, spec *volume.Spec, dir string) (int64, error) {
	device, err := p.device(ctx, spec.Name())
	if err == nil {
		err = loop.Resize(ctx, device)
	}
	if err == nil && spec.IsBlock() {
		size, err := fsusage.BlockSize(ctx, device.Path)
		return size, util.Transient(err)
	}
	if err != nil {
		return 0, util.Transient(err)
	}
	sizes, err := p.disks.Grow(ctx, disk.GrowRequest{Device: device.Path, Target: dir})
	switch {
	case errors.Is(err, mount.ErrUncertain):
		err = volume.AsUncertain(err)
	case errors.Is(err, errors.ErrUnsupported):
		err = fmt.Errorf("%w: %w", volume.ErrNotSupported, err)
	default:
		err = util.Transient(err)
	}
	return sizes.Device, err
}

// A podVolume is the directory of a disk in a pod.
type podVolume struct {
	plugin *plugin
	path   string
}

// GetPath implements [volume.Volume].
func (v podVolume) GetPath() string { return v.path }

// GetMetrics implements [volume.MetricsProvider].
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	return v.plugin.mounts.GetMetrics(ctx, v.path)
}

// A mounter binds the mount of MountDevice for a pod.
type mounter struct {
	podVolume
	source     string
	isReadOnly bool
}

// NewMounter implements [volume.VolumePlugin].
func (p *plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	source, err := deviceMounter{p}.GetDeviceMountPath(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	path, err := p.host.PodVolumeDir(pod.UID, pluginName, spec.Name())
	return &mounter{podVolume{p, path}, source, spec.IsReadOnly()}, err
}

// GetAttributes implements [volume.Mounter].
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.isReadOnly, SELinuxRelabel: true}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]. FsGroup has no effect: the caller changes the group of the files, see
// fsGroupPolicy in csidriver.yaml.
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := podvolume.RefuseSizeAndLabel("a disk", args); err != nil {
		return err
	}
	req := mount.Request{Source: m.source}
	if m.isReadOnly || args.ReadOnly {
		req.Options = []string{"ro"}
	}
	return m.plugin.mounts.Exclusively(ctx, m.source, func(ctx context.Context, source string) error {
		if err := m.plugin.mounts.CheckMounted(ctx, source); err != nil {
			return util.Transient(err)
		}
		return m.plugin.mounts.SetUp(ctx, dir, req)
	})
}

type unmounter struct{ podVolume }

// NewUnmounter implements [volume.VolumePlugin].
func (p *plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	path, err := p.host.PodVolumeDir(podUID, pluginName, volumeName)
	return &unmounter{podVolume{p, path}}, err
}

// NewUnmounterAt implements [volume.PathVolumePlugin].
func (p *plugin) NewUnmounterAt(path string) (volume.Unmounter, error) {
	path, err := p.mounts.Below(field.NewPath("path"), path)
	return &unmounter{podVolume{p, path}}, err
}

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter].
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.mounts.TearDown(ctx, dir)
}

// ConstructVolumeSpec implements [volume.VolumePlugin].
func (p *plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (volume.ReconstructedVolume, error) {
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return volume.ReconstructedVolume{}, err
	}
	at, _, err := p.mounts.At(ctx, mountPath)
	if err != nil {
		return volume.ReconstructedVolume{}, err
	}
	spec := volume.NewSpecFromPersistentVolume(newPersistentVolume(volumeName), at.Flags&mount.ReadOnly != 0)
	return volume.ReconstructedVolume{Spec: spec}, nil
}

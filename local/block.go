package local

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A blockVolume is a raw device for a pod:
//
//	<root>/plugins/kubernetes.io/local-volume/volumeDevices/<volume>/<pod UID>
//	<root>/pods/<pod UID>/volumeDevices/kubernetes.io~local-volume/<volume>
//
// are links to the device, or to its hold for a pod that only reads. The second link is made
// last and removed first: while it exists the volume is mapped.
type blockVolume struct {
	plugin    *Plugin
	name      string
	podUID    types.UID
	podDir    string
	globalDir string
}

const devicesDir = "volumeDevices"

func (p *Plugin) blockVolume(name string, podUID types.UID) (blockVolume, error) {
	global, err := p.pluginPath(devicesDir, name)
	if err != nil {
		return blockVolume{}, err
	}
	dir, err := p.host.PodVolumeDeviceDir(podUID, PluginName)
	return blockVolume{plugin: p, name: name, podUID: podUID, podDir: dir, globalDir: global}, err
}

// NewBlockVolumeMapper validates the specification like NewMounter. A raw device has no mount
// options but "ro" and "rw".
func (p *Plugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	d, err := p.deviceVolume(spec)
	if err == nil && !spec.IsBlock() {
		err = fmt.Errorf("map volume %s, which is mounted: %w", spec.Name(), volume.ErrNotSupported)
	}
	if err != nil {
		return nil, err
	}
	if !d.at.mayBeDevice {
		return nil, invalid(d.path, "a raw device must be directly in a directory of Config.Roots or Config.DeviceLinks")
	}
	for i, option := range d.options {
		if option != "ro" && option != "rw" {
			return nil, &mount.InputError{Field: fmt.Sprintf("Options[%d]", i), Value: input.Shorten(option), Reason: "a raw device has no mount options"}
		}
	}
	b, err := p.blockVolume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	return &blockMapper{b, d}, nil
}

// NewBlockVolumeUnmapper validates the names.
func (p *Plugin) NewBlockVolumeUnmapper(volumeName string, podUID types.UID) (volume.BlockVolumeUnmapper, error) {
	b, err := p.blockVolume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return &blockUnmapper{b}, nil
}

// GetGlobalMapPath implements [volume.BlockVolume].
func (b blockVolume) GetGlobalMapPath(spec *volume.Spec) (string, error) {
	if err := b.plugin.check(spec); err != nil {
		return "", err
	}
	return b.plugin.pluginPath(devicesDir, spec.Name())
}

// GetPodDeviceMapPath implements [volume.BlockVolume].
func (b blockVolume) GetPodDeviceMapPath() (dir, name string) { return b.podDir, b.name }

func (b blockVolume) podLink() string    { return path.Join(b.podDir, b.name) }
func (b blockVolume) globalLink() string { return path.Join(b.globalDir, string(b.podUID)) }

// GetMetrics returns the size of the device. If the device does not answer, all calls share
// one waiting thread, see [fsusage.BlockSize].
func (b blockVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	node, err := queryInTime(ctx, b.plugin, b.podLink(), func() (string, error) { return b.plugin.readLinkTarget(b.podLink()) })
	if err != nil {
		return nil, err
	}
	size, err := fsusage.BlockSize(ctx, node)
	if err != nil {
		return nil, util.Transient(err)
	}
	return &volume.Metrics{Time: metav1.Now(), Capacity: resource.NewQuantity(size, resource.BinarySI)}, nil
}

// exclusively runs work under the volume's lock.
func (b blockVolume) exclusively(ctx context.Context, work func(context.Context) error) error {
	return b.plugin.mounts.Exclusively(ctx, b.globalDir, func(ctx context.Context, _ string) error { return work(ctx) })
}

type blockMapper struct {
	blockVolume
	device *deviceVolume
}

// SetUpDevice implements [volume.BlockVolumeMapper]. It holds the device by a read-only loop
// device on it, and returns an empty path. It writes nothing to the device. A device with
// another use is refused, [ErrDeviceInUse].
func (m *blockMapper) SetUpDevice(ctx context.Context, _ volume.BlockVolumePaths) (string, error) {
	return "", m.exclusively(ctx, func(ctx context.Context) error {
		_, err := m.setUp(ctx)
		return err
	})
}

// A heldDevice has the paths of a device and of its hold.
type heldDevice struct{ node, hold string }

func (m *blockMapper) setUp(ctx context.Context) (heldDevice, error) {
	result := make(chan heldDevice, 1)
	err := m.device.use(ctx, func(ctx context.Context, d *disk.Device) error {
		if err := d.Claim(ctx); err != nil {
			return m.device.failed(util.Transient(err))
		}
		held, err := m.holdDevice(ctx, d)
		result <- held
		return err
	})
	if err != nil {
		return heldDevice{}, err
	}
	return <-result, nil
}

// holdDevice holds a claimed device by a loop device and writes the volume's record. It refuses a
// read-only device for a volume that writes, and a device that replaces the recorded one. It removes
// the links of pods from before a reboot.
func (m *blockMapper) holdDevice(ctx context.Context, d *disk.Device) (heldDevice, error) {
	info := d.Info()
	if info.ReadOnly && !m.device.usedRO {
		return heldDevice{}, m.device.failed(ErrDeviceReadOnly)
	}
	rec, err := m.plugin.records.read(m.name)
	if err != nil {
		return heldDevice{}, m.device.failed(err)
	}
	if rec != nil && rec.isOf(m.device.uid) && rec.Disk.HasOtherID(info.Identity) {
		return heldDevice{}, m.device.failed(ErrDeviceSwapped)
	}
	pods, err := m.plugin.entries(m.globalDir)
	if err != nil {
		return heldDevice{}, m.device.failed(util.Transient(err))
	}
	if rec != nil && rec.Disk.Boot != info.Identity.Boot {
		if err := m.unlinkAll(pods); err != nil {
			return heldDevice{}, m.device.failed(err)
		}
		pods = nil
	}
	if err := m.plugin.records.disown(m.name, info.Identity); err != nil {
		return heldDevice{}, m.device.failed(util.Transient(err))
	}
	inUse := len(pods) > 0
	held, err := m.device.hold(ctx, d, inUse)
	if err != nil {
		return heldDevice{}, err
	}
	now := record{State: stateBlock, UID: m.device.uid, Path: m.device.path, Disk: info.Identity}
	if rec != nil && rec.State == stateBlock {
		now.Readers = slices.DeleteFunc(slices.Clone(rec.Readers), func(pod types.UID) bool {
			return !slices.Contains(pods, string(pod))
		})
	}
	if !rec.equals(now) {
		if err := m.plugin.records.write(m.name, now); err != nil {
			return heldDevice{}, m.device.failed(volume.AsUncertain(err))
		}
	}
	return heldDevice{info.Path, held.Path}, nil
}

// MapPodDevice implements [volume.BlockVolumeMapper]. It calls SetUpDevice if the device is
// not held, and returns the device's path. A pod that only reads gets the loop device, which
// is not writable.
func (m *blockMapper) MapPodDevice(ctx context.Context, _ volume.BlockVolumePaths) (string, error) {
	device := make(chan string, 1)
	err := m.exclusively(ctx, func(ctx context.Context) error {
		held, err := m.setUp(ctx)
		if err != nil {
			return err
		}
		node := held.node
		if m.device.usedRO {
			node = held.hold
		}
		if err := m.checkLink(node); err != nil {
			return err
		}
		if err := m.noteAccess(); err != nil {
			return m.device.failed(volume.AsUncertain(err))
		}
		for _, at := range []string{m.globalLink(), m.podLink()} {
			if err := m.plugin.link(node, at); err != nil {
				return m.device.failed(volume.AsUncertain(err))
			}
		}
		device <- node
		return nil // mapped, though ctx may have ended
	})
	if err != nil {
		return "", err
	}
	return <-device, nil
}

// noteAccess records whether the pod only reads: after a restart of the node the pod's link
// does not show it.
func (m *blockMapper) noteAccess() error {
	rec, err := m.plugin.records.read(m.name)
	if err != nil || rec == nil || rec.isReader(m.podUID) == m.device.usedRO {
		return err
	}
	if m.device.usedRO {
		rec.Readers = append(rec.Readers, m.podUID)
	} else {
		rec.Readers = slices.DeleteFunc(rec.Readers, func(pod types.UID) bool { return pod == m.podUID })
	}
	return m.plugin.records.write(m.name, *rec)
}

// checkLink fails if the pod's link leads to another file.
func (m *blockMapper) checkLink(node string) error {
	there, err := m.plugin.readLinkTarget(m.podLink())
	switch {
	case errors.Is(err, volume.ErrNotMounted) || err == nil && there == node:
		return nil
	case err != nil:
		return m.device.failed(err)
	}
	return m.device.failed(fmt.Errorf("%w: mapped to %s", volume.ErrAlreadyMounted, there))
}

// unlinkAll removes the links of all pods: since the restart of the node their devices may
// have other names.
func (m *blockMapper) unlinkAll(pods []string) error {
	for _, pod := range pods {
		b, err := m.plugin.blockVolume(m.name, types.UID(pod))
		if err == nil {
			err = m.plugin.unlink(b.podLink())
		}
		if err == nil {
			err = m.plugin.unlink(b.globalLink())
		}
		if err != nil {
			return volume.AsUncertain(err)
		}
	}
	return nil
}

type blockUnmapper struct{ blockVolume }

// UnmapPodDevice implements [volume.BlockVolumeUnmapper].
func (u *blockUnmapper) UnmapPodDevice(ctx context.Context) error {
	return u.exclusively(ctx, func(ctx context.Context) error {
		for i, at := range []string{u.podLink(), u.globalLink()} {
			if err := u.plugin.unlink(at); err != nil && i == 0 {
				return util.Transient(err)
			} else if err != nil {
				return volume.AsUncertain(err)
			}
		}
		return nil
	})
}

// TearDownDevice implements [volume.BlockVolumeUnmapper]. It uses paths.GlobalMapPath alone.
// While a pod has the device the error wraps [ErrDeviceInUse].
func (u *blockUnmapper) TearDownDevice(ctx context.Context, paths volume.BlockVolumePaths) error {
	if path.Clean(paths.GlobalMapPath) != u.globalDir {
		return volume.Invalid(field.NewPath("paths", "globalMapPath"), paths.GlobalMapPath, "not the volume's directory of devices")
	}
	return u.exclusively(ctx, func(ctx context.Context) error {
		pods, err := u.plugin.entries(u.globalDir)
		if err != nil {
			return util.Transient(err)
		}
		if len(pods) > 0 {
			return util.Transient(fmt.Errorf("%w: %s is mapped for %d pods", ErrDeviceInUse, u.name, len(pods)))
		}
		if err := u.plugin.release(ctx, u.name); err != nil {
			return err
		}
		return u.plugin.removeDir(u.globalDir)
	})
}

// ConstructBlockVolumeSpec recovers the path of the device that is mapped for the pod at
// mapPath, a name in the directory of the pod's block volumes, from the record of the device.
// Without a record, if the device's own path does not lead to a volume, the error wraps
// [volume.ErrUncertain].
func (p *Plugin) ConstructBlockVolumeSpec(ctx context.Context, podUID types.UID, volumeName, mapPath string) (volume.ReconstructedVolume, error) {
	spec, err := p.constructBlockSpec(ctx, podUID, volumeName, mapPath)
	return volume.ReconstructedVolume{Spec: spec}, err
}

func (p *Plugin) constructBlockSpec(ctx context.Context, podUID types.UID, volumeName, mapPath string) (*volume.Spec, error) {
	b, err := p.blockVolume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	at, err := p.mounts.Below(field.NewPath("mapPath"), mapPath)
	if err != nil {
		return nil, err
	}
	return queryInTime(ctx, p, at, func() (*volume.Spec, error) { return b.recover(ctx, at) })
}

func (b blockVolume) recover(ctx context.Context, at string) (*volume.Spec, error) {
	to, err := b.plugin.readLinkTarget(at)
	if err != nil {
		return nil, err
	}
	rec, err := b.plugin.records.read(b.name)
	if err != nil || rec == nil {
		written, ok := b.plugin.writtenPath(to)
		if !ok || isLoop(to) { // perhaps a hold from before a restart of the node
			return nil, volume.AsUncertain(fmt.Errorf("%s leads to %s: %w", at, to, errors.Join(errNoOrigin, err)))
		}
		rec = &record{Path: written}
	}
	spec := specFor(b.name, rec.Path, nil, rec.isReader(b.podUID) || b.plugin.isHold(ctx, to, b.name))
	spec.PersistentVolume.UID = rec.UID
	block := v1.PersistentVolumeBlock
	spec.PersistentVolume.Spec.VolumeMode = &block
	return spec, nil
}

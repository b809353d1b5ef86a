package local

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

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
//	<root>/plugins/kubernetes.io~local-volume/volumeDevices/<volume>/<pod UID>
//	<root>/pods/<pod UID>/volumeDevices/kubernetes.io~local-volume/<volume>
//
// are links to the device, or to its hold for a pod that only reads. The second is
// made last and removed first: with it the volume is mapped.
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

// NewBlockVolumeMapper checks the specification like NewMounter. A raw device has no
// mount options but "ro" and "rw".
func (p *Plugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume is mapped for a pod")
	}
	d, err := p.deviceVolume(spec)
	if err == nil && !spec.IsBlock() {
		err = fmt.Errorf("map volume %s, which is mounted: %w", spec.Name(), volume.ErrNotSupported)
	}
	if err != nil {
		return nil, err
	}
	if !d.at.mayBeDevice {
		return nil, invalid(d.path, "a raw device is right in one of the directories where local volumes may be")
	}
	for i, option := range d.options {
		if option != "ro" && option != "rw" {
			return nil, &mount.InputError{Field: fmt.Sprintf("Options[%d]", i), Value: option[:min(len(option), 80)], Reason: "a raw device is not mounted"}
		}
	}
	b, err := p.blockVolume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	return &blockMapper{b, d}, nil
}

// NewBlockVolumeUnmapper needs the names alone.
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

// GetMetrics returns the size of the device. For one that does not answer one thread
// waits, however often it is asked, see [fsusage.BlockSize].
func (b blockVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	var node string
	err := inTime(ctx, func() (err error) {
		node, err = b.plugin.linked(b.podLink())
		return err
	})
	if err != nil {
		return nil, err
	}
	size, err := fsusage.BlockSize(ctx, node)
	if err != nil {
		return nil, util.Transient(err)
	}
	return &volume.Metrics{Time: metav1.Now(), Capacity: resource.NewQuantity(size, resource.BinarySI)}, nil
}

// exclusively runs work as the only one for the volume on this node.
func (b blockVolume) exclusively(ctx context.Context, work func() error) error {
	return inTime(ctx, func() error {
		return b.plugin.mounts.Exclusively(ctx, b.globalDir, func(string) error { return work() })
	})
}

type blockMapper struct {
	blockVolume
	device *deviceVolume
}

// SetUpDevice implements [volume.BlockVolumeMapper]. It takes hold of the device, by a
// read-only loop device on it, and returns an empty path. Nothing is written to the
// device. One that is in use as something else is refused, [ErrDeviceInUse].
func (m *blockMapper) SetUpDevice(ctx context.Context) (string, error) {
	return "", m.exclusively(ctx, func() error {
		_, _, err := m.setUp(ctx)
		return err
	})
}

// setUp returns the device's path and its hold's.
func (m *blockMapper) setUp(ctx context.Context) (node, hold string, err error) {
	d, err := m.device.open()
	if err != nil {
		return "", "", err
	}
	defer func() { _ = d.Close() }()
	done, err := m.device.take(ctx, d)
	if err != nil {
		return "", "", err
	}
	defer done()
	facts := d.facts()
	if facts.readOnly && !m.device.usedRO {
		return "", "", m.device.failed(ErrDeviceReadOnly)
	}
	rec, err := m.plugin.records.read(m.name)
	if err != nil {
		return "", "", m.device.failed(err)
	}
	if rec != nil && rec.isOf(m.device.uid) && rec.Disk.differs(facts.identity) {
		return "", "", m.device.failed(ErrDeviceSwapped)
	}
	pods, err := m.plugin.entries(m.globalDir)
	if err != nil {
		return "", "", m.device.failed(util.Transient(err))
	}
	if rec != nil && rec.Disk.Boot != facts.identity.Boot {
		if err := m.unlinkAll(pods); err != nil {
			return "", "", m.device.failed(err)
		}
		pods = nil
	}
	if err := m.plugin.records.disown(m.name, facts.identity); err != nil {
		return "", "", m.device.failed(util.Transient(err))
	}
	held, err := m.device.hold(d, len(pods) > 0)
	if err != nil {
		return "", "", err
	}
	now := record{State: stateBlock, UID: m.device.uid, Path: m.device.path, Disk: facts.identity}
	if rec != nil && rec.State == stateBlock {
		now.Readers = slices.DeleteFunc(slices.Clone(rec.Readers), func(pod types.UID) bool {
			return !slices.Contains(pods, string(pod))
		})
	}
	if !rec.equals(now) {
		if err := m.plugin.records.write(m.name, now); err != nil {
			return "", "", m.device.failed(fmt.Errorf("%w: %w", volume.ErrUncertain, err))
		}
	}
	return facts.node, held.Path, nil
}

// MapPodDevice implements [volume.BlockVolumeMapper]. It does what SetUpDevice does,
// if that has not been done, and returns the device's path. A pod that only reads
// gets the loop device, which cannot be written to.
func (m *blockMapper) MapPodDevice(ctx context.Context) (string, error) {
	var device string
	err := m.exclusively(ctx, func() error {
		node, hold, err := m.setUp(ctx)
		if err != nil {
			return err
		}
		if m.device.usedRO {
			node = hold
		}
		if err := m.checkLink(node); err != nil {
			return err
		}
		if err := m.noteAccess(); err != nil {
			return m.device.failed(fmt.Errorf("%w: %w", volume.ErrUncertain, err))
		}
		for _, at := range []string{m.globalLink(), m.podLink()} {
			if err := m.plugin.link(node, at); err != nil {
				return m.device.failed(fmt.Errorf("%w: %w", volume.ErrUncertain, err))
			}
		}
		device = node
		return nil // also if ctx has ended: it is mapped
	})
	if err != nil {
		return "", err
	}
	return device, nil
}

// noteAccess records whether the pod only reads: when the node has been started again
// its link does not tell.
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

// checkLink fails if the volume is mapped in another way.
func (m *blockMapper) checkLink(node string) error {
	there, err := m.plugin.linked(m.podLink())
	switch {
	case errors.Is(err, volume.ErrNotMounted) || err == nil && there == node:
		return nil
	case err != nil:
		return m.device.failed(err)
	}
	return m.device.failed(fmt.Errorf("%w: it is mapped to %s", volume.ErrAlreadyMounted, there))
}

// unlinkAll removes the links of all pods: since the node was started again their
// devices may have other names.
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
			return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
		}
	}
	return nil
}

type blockUnmapper struct{ blockVolume }

// UnmapPodDevice implements [volume.BlockVolumeUnmapper].
func (u *blockUnmapper) UnmapPodDevice(ctx context.Context) error {
	return u.exclusively(ctx, func() error {
		for i, at := range []string{u.podLink(), u.globalLink()} {
			if err := u.plugin.unlink(at); err != nil && i == 0 {
				return util.Transient(err)
			} else if err != nil {
				return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
			}
		}
		return nil
	})
}

// TearDownDevice implements [volume.BlockVolumeUnmapper]. MapPath is what
// GetGlobalMapPath returned; devicePath is not looked at. While a pod has the device
// the error wraps [ErrDeviceInUse].
func (u *blockUnmapper) TearDownDevice(ctx context.Context, mapPath, _ string) error {
	if path.Clean(mapPath) != u.globalDir {
		return volume.Invalid(field.NewPath("mapPath"), mapPath, "not the volume's directory of devices")
	}
	return u.exclusively(ctx, func() error {
		pods, err := u.plugin.entries(u.globalDir)
		if err != nil {
			return util.Transient(err)
		}
		if len(pods) > 0 {
			return util.Transient(fmt.Errorf("%w: %s is mapped for %d pods", ErrDeviceInUse, u.name, len(pods)))
		}
		if err := u.plugin.release(u.name); err != nil {
			return err
		}
		return u.plugin.removeDir(u.globalDir)
	})
}

// ConstructBlockVolumeSpec recovers the path of the device that is mapped for the pod
// at mapPath, a name in the directory of the pod's block volumes, from the record of
// its device. Without that, and where the device's path does not tell, the error wraps
// [volume.ErrUncertain].
func (p *Plugin) ConstructBlockVolumeSpec(ctx context.Context, podUID types.UID, volumeName, mapPath string) (*volume.Spec, error) {
	b, err := p.blockVolume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	at, err := p.mounts.Below(field.NewPath("mapPath"), mapPath)
	if err != nil {
		return nil, err
	}
	var spec *volume.Spec
	err = inTime(ctx, func() (err error) {
		spec, err = b.recover(at)
		return err
	})
	if err != nil {
		return nil, err
	}
	return spec, nil
}

func (b blockVolume) recover(at string) (*volume.Spec, error) {
	to, err := b.plugin.linked(at)
	if err != nil {
		return nil, err
	}
	rec, err := b.plugin.records.read(b.name)
	if err != nil || rec == nil {
		written, ok := b.plugin.written(to)
		if !ok || isLoop(to) { // perhaps a hold of before the node was started again
			return nil, fmt.Errorf("%w: %s leads to %s: %w", volume.ErrUncertain, at, to, errors.Join(errNoOrigin, err))
		}
		rec = &record{Path: written}
	}
	spec := specFor(b.name, rec.Path, nil, rec.isReader(b.podUID) || b.plugin.isHold(to, b.name))
	spec.PersistentVolume.UID = rec.UID
	block := v1.PersistentVolumeBlock
	spec.PersistentVolume.Spec.VolumeMode = &block
	return spec, nil
}

package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilexec "k8s.io/utils/exec"
)

// PluginName is the name of the plugin.
const PluginName = "kubernetes.io/local-volume"

// Config is what the plugin needs.
type Config struct {
	// Mounter mounts. Required.
	Mounter mount.Interface
	// Roots are the directories below which volumes may be, such as "/mnt/disks".
	// They must exist when the plugin is initialised; symbolic links on the way to
	// them are resolved then. A root is no volume itself. Of roots that are in one
	// another the innermost counts. None: no volume is accepted.
	//
	// A block device is a volume only right in a root, such as "/dev", not in a
	// directory below it: that may be the volume of a pod, which makes what device
	// files it likes. Nobody but root must be able to write to a root. A symbolic link
	// there is no volume, [ErrLink]: a directory of links to devices, as "/dev/mapper"
	// is where there is udev, belongs into DeviceLinks.
	//
	// The directories of the pods and the plugins, VolumeHost.OwnDirs, are nobody's
	// volume: a root must not be one of them or in one, and a path below a root
	// that is, or that one of them is in, is refused.
	Roots []string
	// DeviceLinks are directories of symbolic links to block devices, such as
	// "/dev/disk/by-id" and "/dev/mapper". An entry of one of them, but nothing further down, may be a
	// volume: the device that the link leads to, wherever it is, by way of other links
	// in these directories if need be. No other link on the way is followed. So only
	// root may be able to write to them. They must exist when the plugin is
	// initialised, like Roots.
	DeviceLinks []string
	// OnOwnerConflict is told when a pod asks for another group of a volume than it has
	// for pods that use it already. If it returns nil the pod gets the volume with the
	// group that it has; else SetUp fails with the error. Nil: SetUp fails with the
	// conflict. It may be called by several goroutines at the same time.
	OnOwnerConflict func(ctx context.Context, conflict *OwnerConflict) error
	// MapGroups shows a volume to a pod with the pod's FsGroup by an ID-mapped bind
	// (mount_setattr(2), Linux 5.12), instead of changing the group of each file: at
	// once however many there are, and for this pod alone, so that pods with different
	// groups can use the volume at the same time. What the pod's group makes is stored
	// as the volume's.
	//
	// It is for volumes that have been prepared for a group other than root's: their
	// root is the group's, with rwx and set-group-ID, and so should be all in them,
	// which nobody looks at (compare ownership.OnRootMismatch). The group of other
	// volumes is changed as without this option, and so it is where the kernel, the
	// file system or a user namespace does not allow it.
	MapGroups bool
}

// Plugin is the volume plugin. Make one with [New].
type Plugin struct {
	config  Config
	host    volume.VolumeHost
	mounts  *util.PodMounts
	roots   []root
	records records
	owning  claims      // on directories that are to be mounted
	asking  keylock.Map // file systems, by device, that are asked whose something is
	taking  keylock.Map // devices that are being taken into use; several in their order
	devices devices
	run     func(ctx context.Context, name string, args ...string) utilexec.Cmd // nil: the system's
}

var (
	_ volume.VolumePlugin                = (*Plugin)(nil)
	_ volume.PersistentVolumePlugin      = (*Plugin)(nil)
	_ volume.MountOptionsVolumePlugin    = (*Plugin)(nil)
	_ volume.DeviceMountableVolumePlugin = (*Plugin)(nil)
	_ volume.NodeExpandableVolumePlugin  = (*Plugin)(nil)
	_ volume.BlockVolumePlugin           = (*Plugin)(nil)
)

// New returns the plugin. What is wrong with the configuration is an error of
// Init.
func New(config Config) *Plugin { return &Plugin{config: config, devices: nodeDevices{}} }

// Init resolves the roots. A configuration without a mounter, or with a root
// that is missing, not absolute or in a directory of the host's own, is an error.
func (p *Plugin) Init(host volume.VolumeHost) error {
	if p.config.Mounter == nil {
		return errors.New("local: Config.Mounter is missing")
	}
	roots, err := p.config.roots(host)
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	if p.records, err = newRecords(host); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	p.host, p.mounts, p.roots = host, util.NewPodMounts(host, p.config.Mounter), roots
	return nil
}

// roots returns all directories below which volumes may be.
func (c Config) roots(host volume.VolumeHost) ([]root, error) {
	roots, err := resolveRoots("Config.Roots", c.Roots)
	if err != nil {
		return nil, err
	}
	links, err := resolveRoots("Config.DeviceLinks", c.DeviceLinks)
	if err != nil {
		return nil, err
	}
	for i := range links {
		links[i].links = true
	}
	roots = append(links, roots...)
	for _, r := range roots {
		for _, own := range host.OwnDirs() {
			if isOrIsBelow(own, r.resolved) {
				return nil, fmt.Errorf("%s %q: %s is in %s, where the volumes of pods are", r.field, r.declared, r.resolved, own)
			}
		}
	}
	return roots, nil
}

// GetPluginName returns [PluginName].
func (p *Plugin) GetPluginName() string { return PluginName }

// GetVolumeName returns the name of the persistent volume: the same path is
// another volume on another node. That two volumes show one directory, or one a
// part of the other, it does not know.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	if err := p.check(spec); err != nil {
		return "", err
	}
	return spec.Name(), nil
}

// CanSupport reports whether the volume is a local one.
func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	return spec != nil && spec.PersistentVolume != nil && spec.PersistentVolume.Spec.Local != nil
}

// GetAccessModes returns all modes: any number of pods of this node may share
// the directory, which no other node has.
func (p *Plugin) GetAccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{
		v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod,
	}
}

// SupportsMountOption returns true.
func (p *Plugin) SupportsMountOption() bool { return true }

// NewMounter checks the specification: a path strictly below one of the roots,
// mount options that a bind mount has, none that contradicts read-only. The
// error is a [*field.Error] or a [*mount.InputError]; a block volume's wraps
// [volume.ErrNotSupported].
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	if err := p.checkMounted(spec); err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume is mounted for a pod")
	}
	v, err := p.volume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	at, err := p.locate(spec.PersistentVolume.Spec.Local.Path)
	if err != nil {
		return nil, err
	}
	m := &mounter{podVolume: v, at: at, spec: spec, options: spec.MountOptions(), readOnly: spec.IsReadOnly()}
	return m, m.checkOptions()
}

// NewUnmounter needs the names alone.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	v, err := p.volume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return &unmounter{v}, nil
}

// checkMounted accepts a specification of a local volume that is no raw device.
func (p *Plugin) checkMounted(spec *volume.Spec) error {
	if err := p.check(spec); err != nil {
		return err
	}
	if spec.IsBlock() {
		return fmt.Errorf("mount block volume %s, which is mapped: %w", spec.Name(), volume.ErrNotSupported)
	}
	return checkFSType(spec)
}

// check accepts a specification of a local volume.
func (p *Plugin) check(spec *volume.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if !p.CanSupport(spec) {
		return field.Required(field.NewPath("spec", "persistentVolume", "spec", "local"), "not a local volume")
	}
	return nil
}

var errNotInitialised = errors.New("local: the plugin is not initialised")

// volume returns the volume's place for the pod, once its names are in order.
func (p *Plugin) volume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errNotInitialised
	}
	dir, err := p.host.PodVolumeDir(podUID, PluginName, name)
	return podVolume{plugin: p, path: dir}, err
}

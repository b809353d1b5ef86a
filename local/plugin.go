package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PluginName is the name of the plugin.
const PluginName = "kubernetes.io/local-volume"

// Config configures the plugin.
type Config struct {
	// Mounter mounts. Required.
	Mounter mount.Interface
	// Roots are the directories below which volumes are permitted, such as "/mnt/disks". They
	// must exist when the plugin is initialised, which resolves symbolic links in them. A
	// root itself is no volume. Of nested roots the innermost applies. None: no volume is
	// accepted.
	//
	// A block device is a volume only directly in a root, such as "/dev", not in a directory
	// below it, which may be the volume of a pod that creates device files. Only root may be
	// able to write to a root. A symbolic link there is no volume, [ErrLink]: a directory of
	// links to devices, such as "/dev/mapper" with udev, belongs into DeviceLinks.
	//
	// The directories of the pods and the plugins, VolumeHost.OwnDirs, are no volumes: a root
	// must not be one of them or inside one, and a path below a root that is one of them,
	// inside one or above one is refused.
	Roots []string
	// DeviceLinks are directories of symbolic links to block devices, such as
	// "/dev/disk/by-id" and "/dev/mapper". A direct entry of one of them may be a volume: the
	// device at the end of the link, in any directory, also through other links in these
	// directories. No other link on the way is followed. Only root may be able to write to
	// these directories. They must exist when the plugin is initialised, like Roots.
	DeviceLinks []string
	// OnOwnerConflict is called when a pod requests another group of a volume than current
	// pods have. If it returns nil the pod gets the volume with its current group; otherwise
	// SetUp fails with the error. Nil: SetUp fails with the conflict. It may be called
	// concurrently.
	OnOwnerConflict func(ctx context.Context, conflict *OwnerConflict) error
	// Logger receives a debug line for each SetUp of a directory with mount options that it drops.
	// Nil: discarded.
	Logger *slog.Logger
	// OnUnchanged is called for each file, or directory, of a volume that cannot be given to a pod's
	// FsGroup, such as an immutable file, or one of a file system that ignores changes of owner
	// (ErrIgnored of package ownership). If it returns nil the file stays as it is and SetUp goes on, as a
	// kubelet does; otherwise SetUp fails. Nil: SetUp fails. It may be called concurrently. A
	// volume that is read-only as a whole keeps its owners without a call. If the volume's own
	// directory keeps its group, the next pod is an [OwnerConflict].
	OnUnchanged func(ctx context.Context, file string, err error) error
	// MapGroups mounts a volume with the pod's FsGroup by an ID-mapped bind mount
	// (mount_setattr(2), Linux 5.12), instead of changing the group of each file: at once for
	// any number of files, and for this pod alone, so that pods with different groups can use
	// the volume at the same time. New files of the pod's group are stored with the volume's.
	//
	// It applies to volumes that have been prepared for a group other than root's: their root
	// has the group, rwx for it and set-group-ID, and so should all files, which are not
	// inspected (compare ownership.OnRootMismatch). For other volumes, and where the kernel,
	// the file system or a user namespace does not support it, the group is changed as
	// without this option.
	MapGroups bool
}

// Plugin is the volume plugin. [New] returns one.
type Plugin struct {
	config  Config
	host    volume.VolumeHost
	mounts  *podvolume.Mounts
	roots   []root
	records records
	locks   dirLocks    // of directories that are about to be mounted
	queries keylock.Map // by device of a file system: queries of owners
	nodes   nodes
	disks   *disk.Disks
	// devices and programs are those of the node if they are nil.
	devices  disk.Devices
	programs disk.Programs
}

var (
	_ volume.VolumePlugin                = (*Plugin)(nil)
	_ volume.PathVolumePlugin            = (*Plugin)(nil)
	_ volume.PersistentVolumePlugin      = (*Plugin)(nil)
	_ volume.MountOptionsVolumePlugin    = (*Plugin)(nil)
	_ volume.DeviceMountableVolumePlugin = (*Plugin)(nil)
	_ volume.NodeExpandableVolumePlugin  = (*Plugin)(nil)
	_ volume.BlockVolumePlugin           = (*Plugin)(nil)
)

// New returns the plugin. Init returns an error if the configuration is invalid.
func New(config Config) *Plugin { return &Plugin{config: config, nodes: kernelNodes{}} }

// Init resolves the roots. A configuration without a mounter, or with a root
// that is missing, not absolute or in a directory of the host's own, is an error. If ctx
// ends before a root's file system has answered, the error wraps ctx.Err() and the cause.
func (p *Plugin) Init(ctx context.Context, host volume.VolumeHost) error {
	if p.config.Mounter == nil {
		return errors.New("local: Config.Mounter is missing")
	}
	if p.config.Logger == nil {
		p.config.Logger = slog.New(slog.DiscardHandler)
	}
	roots, err := p.config.roots(ctx, host)
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	if p.records, err = openRecords(host); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	p.disks = disk.New(disk.Config{Mounter: p.config.Mounter, Devices: p.devices, Programs: p.programs, RefuseLinks: true})
	p.host, p.mounts, p.roots = host, podvolume.NewMounts(host, p.config.Mounter), roots
	return nil
}

// roots returns all directories below which volumes are permitted.
func (c Config) roots(ctx context.Context, host volume.VolumeHost) ([]root, error) {
	roots, err := resolveRoots(ctx, "Config.Roots", c.Roots)
	if err != nil {
		return nil, err
	}
	links, err := resolveRoots(ctx, "Config.DeviceLinks", c.DeviceLinks)
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
				return nil, fmt.Errorf("%s %q: %s is in %s, a directory of the pods' volumes", r.field, r.declared, r.resolved, own)
			}
		}
	}
	return roots, nil
}

// GetPluginName returns [PluginName].
func (p *Plugin) GetPluginName() string { return PluginName }

// GetVolumeName returns the name of the persistent volume: the same path is another volume on
// another node. Volumes that show one directory, or one a part of the other, have different
// names.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	if err := p.check(spec); err != nil {
		return "", err
	}
	return spec.Name(), nil
}

// CanSupport reports whether the volume is a local volume.
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

// NewMounter validates the specification: a path strictly below one of the roots, options
// that do not contradict each other or read-only. The error is a [*field.Error] or a
// [*mount.InputError]; that of a block volume wraps [volume.ErrNotSupported].
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	if err := p.checkMounted(spec); err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	v, err := p.volume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	at, err := p.locate(spec.PersistentVolume.Spec.Local.Path)
	if err != nil {
		return nil, err
	}
	m := &mounter{podVolume: v, at: at, spec: spec, readOnly: spec.IsReadOnly()}
	return m, m.parseOptions()
}

// NewUnmounter validates the names.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	v, err := p.volume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return &unmounter{v}, nil
}

// NewUnmounterAt implements [volume.PathVolumePlugin].
func (p *Plugin) NewUnmounterAt(path string) (volume.Unmounter, error) {
	at, err := p.mounts.Below(field.NewPath("path"), path)
	if err != nil {
		return nil, err
	}
	return &unmounter{podVolume{plugin: p, path: at}}, nil
}

// checkMounted requires a local volume that is no raw device.
func (p *Plugin) checkMounted(spec *volume.Spec) error {
	if err := p.check(spec); err != nil {
		return err
	}
	if spec.IsBlock() {
		return fmt.Errorf("mount block volume %s, which is mapped: %w", spec.Name(), volume.ErrNotSupported)
	}
	return checkFSType(spec)
}

// check requires a local volume.
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

// volume returns the volume's directory for the pod after validating both names.
func (p *Plugin) volume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errNotInitialised
	}
	dir, err := p.host.PodVolumeDir(podUID, PluginName, name)
	return podVolume{plugin: p, path: dir}, err
}

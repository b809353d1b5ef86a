package hostpath

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PluginName is the name of the plugin.
const PluginName = "kubernetes.io/host-path"

// Config configures the plugin.
type Config struct {
	// Mounter mounts. Required.
	Mounter mount.Interface
	// Roots are the paths at and below which volumes are permitted. They must exist when the
	// plugin is initialised, which resolves symbolic links in them. A root may be a single
	// file, such as a socket. None: no volume is accepted.
	//
	// A root must not be one of the host's own directories (volume.VolumeHost.OwnDirs) or
	// inside one. A path below a root that is one of them, inside one, or above one is
	// refused.
	Roots []string
	// Links are directories at and below which symbolic links are followed on the way to a
	// path, such as "/etc" for /etc/localtime and "/var" for /var/run. A path may also begin
	// in one of them if it ends at or below one of Roots. Only links are followed that root
	// owns and whose directory, with all above it, belongs to root and is writable by root
	// alone. Other links, and those that lead out of Roots, are a [*LinkError]. The
	// directories must exist when the plugin is initialised, like Roots.
	//
	// A pod that runs as root and has a directory below one of them as a volume can create
	// such links, too; they lead to no file that Roots do not permit already. None: no
	// symbolic link is followed.
	Links []string
	// InPlace makes the path of the host itself the path of a volume, as the kubelet does:
	// SetUp checks the path and creates a missing file as the type says, but mounts nothing,
	// and leaves no directory in the pod's. It is for nodes that a kubelet takes over: a
	// kubelet cannot remove the directory of a pod with a bind mount. See the package doc.
	InPlace bool
	// CreateMissing creates the missing path of a volume without a type as a directory, as
	// container runtimes do: with its parents below the root, mode 0755.
	CreateMissing bool
	// Submounts selects the treatment of mounts below a path: mount.RefuseSubmounts, which
	// is the zero value, or mount.IncludeSubmounts, which makes them part of the volume, with
	// its flags.
	Submounts mount.Submounts
	// Propagation selects the propagation of later mounts below a path:
	// mount.PropagationPrivate, which is the zero value, none; mount.PropagationSlave from
	// the node to the volume, as pods with HostToContainer need; mount.PropagationShared in
	// both directions, as those with Bidirectional do. It concerns volumes that are set up
	// from then on. See the package doc.
	Propagation mount.Propagation

	// Recycler empties released volumes, see [Plugin.Recycle]. The recyclers of package
	// recycler fit; their Plugin function can be the FindPluginBySpec of the manager in
	// which this plugin is registered. Nil: volumes are not recycled.
	Recycler volume.Recycler
	// RecycleRoots are the directories strictly below which volumes may be recycled. They
	// follow the rules of Roots; both lists must permit a path. None: no volume is recycled.
	RecycleRoots []string
}

// Plugin is the volume plugin. [New] returns one.
type Plugin struct {
	config        Config
	host          volume.VolumeHost
	mounts        *podvolume.Mounts
	walker        *fsusage.Walker
	notes         *podvolume.Notes
	boot          string // ID of the running system; empty: it has none
	roots, spoils *podvolume.HostRoots
	links         *podvolume.HostRoots
	asking        keylock.Map // by path on the host; locked after those of mounts
}

var (
	_ volume.VolumePlugin             = (*Plugin)(nil)
	_ volume.PersistentVolumePlugin   = (*Plugin)(nil)
	_ volume.MountOptionsVolumePlugin = (*Plugin)(nil)
	_ volume.RecyclableVolumePlugin   = (*Plugin)(nil)
	_ volume.RenewableVolumePlugin    = (*Plugin)(nil)
	_ volume.PathVolumePlugin         = (*Plugin)(nil)
)

// New returns the plugin. Init returns an error if the configuration is invalid.
func New(config Config) *Plugin { return &Plugin{config: config} }

// Init resolves Config.Roots, RecycleRoots and Links, and removes what a process that died in a SetUp
// has left in the plugin's directory. A configuration without a mounter is an error, and so is a
// path among these that is missing, not absolute, or in one of the host's own directories.
func (p *Plugin) Init(ctx context.Context, host volume.VolumeHost) error {
	if p.config.Mounter == nil {
		return errors.New("hostpath: Config.Mounter is missing")
	}
	if s := p.config.Submounts; s != mount.RefuseSubmounts && s != mount.IncludeSubmounts {
		return &mount.InputError{Field: "Submounts", Value: strconv.Itoa(int(s)), Reason: "neither refused nor included"}
	}
	if s := p.config.Propagation; s < mount.PropagationPrivate || s > mount.PropagationShared {
		return &mount.InputError{Field: "Propagation", Value: strconv.Itoa(int(s)), Reason: "no such propagation"}
	}
	roots, err := podvolume.NewHostRoots(ctx, host, p.config.Roots)
	if err != nil {
		return fmt.Errorf("hostpath: Config.Roots: %w", err)
	}
	spoils, err := podvolume.NewHostRoots(ctx, host, p.config.RecycleRoots)
	if err != nil {
		return fmt.Errorf("hostpath: Config.RecycleRoots: %w", err)
	}
	links, err := podvolume.NewHostRoots(ctx, host, p.config.Links)
	if err != nil {
		return fmt.Errorf("hostpath: Config.Links: %w", err)
	}
	if p.boot, err = bootid.Read(); err != nil {
		return fmt.Errorf("hostpath: %w", err)
	}
	p.host, p.roots, p.spoils, p.links = host, roots, spoils, links
	p.mounts, p.walker = podvolume.NewMounts(host, p.config.Mounter), podvolume.NewWalker()
	p.notes = podvolume.NewNotes(p.mounts, PluginName)
	return p.endTrials(ctx)
}

// GetPluginName returns [PluginName].
func (p *Plugin) GetPluginName() string { return PluginName }

// GetVolumeName returns the clean path, with symbolic links resolved up to its root but not
// those of [Config.Links].
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	s, err := p.source(spec)
	return s.path, err
}

// CanSupport reports whether the volume is a host path, of a pod or of a persistent volume.
func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	written, _ := sourceOf(spec)
	return written != nil
}

// GetAccessModes returns all modes: any number of pods of this node may share the path,
// which no other node has.
func (p *Plugin) GetAccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{
		v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod,
	}
}

// SupportsMountOption returns true unless volumes are in place ([Config.InPlace]): a
// persistent volume may have the options of a bind mount, such as ro and noexec.
func (p *Plugin) SupportsMountOption() bool { return !p.config.InPlace }

// IsRenewable returns true: the file at the path may be replaced. In place SetUp checks it again.
func (p *Plugin) IsRenewable(*volume.Spec) bool { return true }

// NewMounter validates the specification: a path at or below one of the roots, an existing
// type, options of a bind mount that contradict neither read-only nor the type. The error
// is a [*field.Error] or a [*mount.InputError]; that of a block volume, and of mount options
// with [Config.InPlace], wraps [volume.ErrNotSupported].
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	s, err := p.source(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	v, err := p.volume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	m := &mounter{podVolume: v, source: s, options: spec.MountOptions(), readOnly: spec.IsReadOnly()}
	if !p.config.InPlace {
		return m, m.checkOptions()
	}
	if len(m.options) > 0 {
		return nil, fmt.Errorf("mount options of volume %s with hostpath.Config.InPlace: %w", spec.Name(), volume.ErrNotSupported)
	}
	return &inPlace{m}, nil
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

var errNotInitialised = errors.New("hostpath: the plugin is not initialised")

// volume returns the volume's path for the pod after validating both names.
func (p *Plugin) volume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errNotInitialised
	}
	dir, err := p.host.PodVolumeDir(podUID, PluginName, name)
	return podVolume{plugin: p, path: dir}, err
}

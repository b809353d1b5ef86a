package hostpath

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PluginName is the name of the plugin.
const PluginName = "kubernetes.io/host-path"

// Config is what the plugin needs.
type Config struct {
	// Mounter mounts. Required.
	Mounter mount.Interface
	// Roots are the paths at and below which volumes may be. They must exist when the
	// plugin is initialised; symbolic links on the way to them are resolved then. A
	// root may be a single file, such as a socket. None: no volume is accepted.
	//
	// A root must not be one of the host's own directories (volume.VolumeHost.OwnDirs)
	// or in one; a path below a root that is, or that one of them is in, is refused.
	Roots []string
	// Submounts says what becomes of the mounts below a path: mount.RefuseSubmounts,
	// which is the zero value, or mount.IncludeSubmounts, with which they are part of
	// the volume, with its flags.
	Submounts mount.Submounts
	// Propagation says what of the mounts that are made below a path later is seen in
	// the volume, and the other way round: mount.PropagationPrivate, which is the zero
	// value, nothing; mount.PropagationSlave what the node mounts, as pods with
	// HostToContainer need; mount.PropagationShared both, as those with Bidirectional
	// do. It is for the volumes that are set up from then on. See the package doc.
	Propagation mount.Propagation

	// Recycler empties released volumes, see [Plugin.Recycle]: such as one of package
	// recycler, whose way to a plugin can be the plugin manager that this one is in.
	// Nil: volumes are not recycled.
	Recycler volume.Recycler
	// RecycleRoots are the directories strictly below which volumes may be recycled.
	// They are like Roots, and mean nothing for paths that are not below one of those.
	// None: no volume is recycled.
	RecycleRoots []string
}

// Plugin is the volume plugin. Make one with [New].
type Plugin struct {
	config        Config
	host          volume.VolumeHost
	mounts        *util.PodMounts
	walker        *fsusage.Walker
	roots, spoils *util.HostRoots
	asking        keylock.Map // by path on the host; taken after those of mounts
}

var (
	_ volume.VolumePlugin             = (*Plugin)(nil)
	_ volume.PersistentVolumePlugin   = (*Plugin)(nil)
	_ volume.MountOptionsVolumePlugin = (*Plugin)(nil)
	_ volume.RecyclableVolumePlugin   = (*Plugin)(nil)
)

// New returns the plugin. What is wrong with the configuration is an error of Init.
func New(config Config) *Plugin { return &Plugin{config: config} }

// Init resolves the roots. A configuration without a mounter, or with a root that is
// missing, not absolute or in a directory of the host's own, is an error.
func (p *Plugin) Init(host volume.VolumeHost) error {
	if p.config.Mounter == nil {
		return errors.New("hostpath: Config.Mounter is missing")
	}
	if s := p.config.Submounts; s != mount.RefuseSubmounts && s != mount.IncludeSubmounts {
		return &mount.InputError{Field: "Submounts", Value: strconv.Itoa(int(s)), Reason: "neither refused nor included"}
	}
	if s := p.config.Propagation; s < mount.PropagationPrivate || s > mount.PropagationShared {
		return &mount.InputError{Field: "Propagation", Value: strconv.Itoa(int(s)), Reason: "no such propagation"}
	}
	roots, err := util.NewHostRoots(host, p.config.Roots)
	if err != nil {
		return fmt.Errorf("hostpath: Config.Roots: %w", err)
	}
	spoils, err := util.NewHostRoots(host, p.config.RecycleRoots)
	if err != nil {
		return fmt.Errorf("hostpath: Config.RecycleRoots: %w", err)
	}
	p.host, p.roots, p.spoils = host, roots, spoils
	p.mounts, p.walker = util.NewPodMounts(host, p.config.Mounter), util.NewWalker()
	return nil
}

// GetPluginName returns [PluginName].
func (p *Plugin) GetPluginName() string { return PluginName }

// GetVolumeName returns the path, as short as it can be written and without the
// symbolic links on the way to its root.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	s, err := p.source(spec)
	return s.path, err
}

// CanSupport reports whether the volume is a path of the node, written in a pod or a
// persistent volume.
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

// SupportsMountOption returns true: a persistent volume may have the options of a bind
// mount, such as ro and noexec.
func (p *Plugin) SupportsMountOption() bool { return true }

// NewMounter checks the specification: a path at or below one of the roots, a type that
// there is, mount options that a bind mount has, none that contradicts read-only or the
// type. The error is a [*field.Error] or a [*mount.InputError]; a block volume's wraps
// [volume.ErrNotSupported].
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	s, err := p.source(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume is mounted for a pod")
	}
	v, err := p.volume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	m := &mounter{podVolume: v, source: s, options: spec.MountOptions(), readOnly: spec.IsReadOnly()}
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

var errNotInitialised = errors.New("hostpath: the plugin is not initialised")

// volume returns the volume's place for the pod, once its names are in order.
func (p *Plugin) volume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errNotInitialised
	}
	dir, err := p.host.PodVolumeDir(podUID, PluginName, name)
	return podVolume{plugin: p, path: dir}, err
}

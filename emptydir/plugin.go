package emptydir

import (
	"errors"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PluginName is the name of the plugin.
const PluginName = "kubernetes.io/empty-dir"

// Config is what the plugin needs.
type Config struct {
	// Mounter mounts volumes in memory, and says what is mounted on others. Required.
	Mounter mount.Interface
	// MemorySize is how large a volume in memory is, in bytes, for which nothing else
	// is said. Zero: half of the node's memory.
	MemorySize int64
}

// Plugin is the volume plugin. Make one with [New].
type Plugin struct {
	config Config
	host   volume.VolumeHost
	dirs   *util.PodDirs
}

var _ volume.VolumePlugin = (*Plugin)(nil)

// New returns the plugin. What is wrong with the configuration is an error of
// Init.
func New(config Config) *Plugin { return &Plugin{config: config} }

// Init finds out how large the node's memory is, unless the configuration says how
// large a volume in it is.
func (p *Plugin) Init(host volume.VolumeHost) error {
	switch {
	case p.config.Mounter == nil:
		return errors.New("emptydir: Config.Mounter is missing")
	case p.config.MemorySize < 0:
		return errors.New("emptydir: Config.MemorySize is negative")
	case p.config.MemorySize == 0:
		memory, err := nodeMemory()
		if err != nil {
			return err
		}
		p.config.MemorySize = memory / 2
	}
	p.host, p.dirs = host, util.NewPodDirs(host, p.config.Mounter, PluginName)
	return nil
}

// GetPluginName returns [PluginName].
func (p *Plugin) GetPluginName() string { return PluginName }

// GetVolumeName returns the volume's name in its pod. Volumes of different pods are
// different though they are called the same.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	if err := p.check(spec); err != nil {
		return "", err
	}
	return spec.Name(), nil
}

// CanSupport reports whether the volume is an emptyDir.
func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	return spec != nil && spec.Volume != nil && spec.Volume.EmptyDir != nil
}

// NewMounter checks the specification: a medium that there is, and a size that is not
// negative. The error is a [*field.Error].
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	if err := p.check(spec); err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume is set up for a pod")
	}
	source := spec.Volume.EmptyDir.DeepCopy()
	medium, err := parseMedium(source.Medium, pod)
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(source.SizeLimit)
	if err != nil {
		return nil, err
	}
	v, err := p.volume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	return &mounter{v, *source, medium, smallest(limit, util.PodMemory(pod)), limit, spec.IsReadOnly()}, nil
}

// NewUnmounter needs the names alone.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	v, err := p.volume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return &unmounter{v}, nil
}

// check accepts a specification of an emptyDir.
func (p *Plugin) check(spec *volume.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if !p.CanSupport(spec) {
		return field.Required(field.NewPath("spec", "volume", "emptyDir"), "not an emptyDir")
	}
	return nil
}

var errNotInitialised = errors.New("emptydir: the plugin is not initialised")

// volume returns the volume's place for the pod, once its names are in order.
func (p *Plugin) volume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errNotInitialised
	}
	dir, err := p.host.PodVolumeDir(podUID, PluginName, name)
	return podVolume{plugin: p, path: dir}, err
}

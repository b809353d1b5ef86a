package content

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Config is what the plugins need. A volume that needs a getter which is missing is
// refused with an error that wraps volume.ErrNotSupported.
type Config struct {
	// Mounter mounts the tmpfs of each volume, and says what is mounted on others.
	// Required.
	Mounter mount.Interface

	ConfigMaps   ConfigMapGetter
	Secrets      SecretGetter
	Tokens       TokenGetter
	TrustBundles TrustBundleGetter
	Certificates CertificateGetter
	Node         NodeGetter
}

// Plugin is one of the volume plugins.
type Plugin struct {
	config Config
	kind   kind
	host   volume.VolumeHost
	dirs   *util.PodDirs
}

var (
	_ volume.VolumePlugin        = (*Plugin)(nil)
	_ volume.RemountVolumePlugin = (*Plugin)(nil)
)

// NewConfigMap returns the plugin for ConfigMaps, which needs [Config.ConfigMaps]. What is
// wrong with the configuration is an error of Init.
func NewConfigMap(config Config) *Plugin { return &Plugin{config: config, kind: configMapKind} }

// NewSecret returns the plugin for Secrets, which needs [Config.Secrets].
func NewSecret(config Config) *Plugin { return &Plugin{config: config, kind: secretKind} }

// NewDownwardAPI returns the plugin for what pods are told of themselves.
func NewDownwardAPI(config Config) *Plugin { return &Plugin{config: config, kind: downwardAPIKind} }

// NewProjected returns the plugin for volumes of several sources.
func NewProjected(config Config) *Plugin { return &Plugin{config: config, kind: projectedKind} }

// Format implements [fmt.Formatter]: a getter may hold secrets.
func (p *Plugin) Format(s fmt.State, _ rune) { _, _ = fmt.Fprintf(s, "plugin %s", p.kind.plugin) }

// Init looks whether the configuration has what the plugin needs for all its volumes.
func (p *Plugin) Init(host volume.VolumeHost) error {
	if p.config.Mounter == nil {
		return errors.New("content: Config.Mounter is missing")
	}
	if name, ok := p.kind.needs(p.config); !ok {
		return fmt.Errorf("content: Config.%s is missing, which %s needs", name, p.kind.plugin)
	}
	p.host, p.dirs = host, util.NewPodDirs(host, p.config.Mounter, p.kind.plugin)
	return nil
}

// GetPluginName returns the name of the plugin.
func (p *Plugin) GetPluginName() string { return p.kind.plugin }

// GetVolumeName returns the volume's name in its pod. Volumes of different pods are
// different though they are called the same, and show the same.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	if _, err := p.source(spec); err != nil {
		return "", err
	}
	return spec.Name(), nil
}

// CanSupport reports whether the volume is of the plugin's kind.
func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	return spec != nil && spec.Volume != nil && p.kind.source(spec.Volume) != nil
}

// RequiresRemount returns true: SetUp brings a volume up to date.
func (p *Plugin) RequiresRemount(*volume.Spec) bool { return true }

// NewMounter checks the specification: names that the API allows, paths that stay in the
// volume and exclude no other, permissions, fields that there are, times that the API
// allows. The error is a [*field.Error], which names the field as the volume has it; if a
// getter is missing that it needs it wraps [volume.ErrNotSupported], too.
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	source, err := p.source(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume is set up for a pod")
	}
	if err := p.check(source, pod); err != nil {
		return nil, err
	}
	setDefaults(source)
	v, err := p.volume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	only := p.kind.only(spec.Volume)
	return &mounter{podVolume: v, written: *only.DeepCopy(), source: source, pod: pod.DeepCopy()}, nil
}

// NewUnmounter needs the names alone.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	v, err := p.volume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return &unmounter{v}, nil
}

// source accepts a specification of the plugin's kind.
func (p *Plugin) source(spec *volume.Spec) (*v1.ProjectedVolumeSource, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if !p.CanSupport(spec) {
		return nil, field.Required(field.NewPath("spec", "volume", p.kind.field), "not a volume of this kind")
	}
	return p.kind.source(spec.Volume), nil
}

var errNotInitialised = errors.New("content: the plugin is not initialised")

// volume returns the volume's place for the pod, once its names are in order.
func (p *Plugin) volume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errNotInitialised
	}
	dir, err := p.host.PodVolumeDir(podUID, p.kind.plugin, name)
	return podVolume{plugin: p, path: dir}, err
}

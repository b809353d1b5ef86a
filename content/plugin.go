package content

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Config configures the plugins. A volume that needs a missing getter is refused with an
// error that wraps volume.ErrNotSupported.
type Config struct {
	// Mounter mounts the tmpfs of each volume and reads the mount table for others.
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
	dirs   *podvolume.Dirs
}

var (
	_ volume.VolumePlugin        = (*Plugin)(nil)
	_ volume.RemountVolumePlugin = (*Plugin)(nil)
	_ volume.PathVolumePlugin    = (*Plugin)(nil)
)

// NewConfigMap returns the plugin for ConfigMaps, which needs [Config.ConfigMaps]. Init
// returns an error if the configuration is invalid.
func NewConfigMap(config Config) *Plugin { return &Plugin{config: config, kind: configMapKind} }

// NewSecret returns the plugin for Secrets, which needs [Config.Secrets].
func NewSecret(config Config) *Plugin { return &Plugin{config: config, kind: secretKind} }

// NewDownwardAPI returns the plugin for the downward API.
func NewDownwardAPI(config Config) *Plugin { return &Plugin{config: config, kind: downwardAPIKind} }

// NewProjected returns the plugin for volumes of several sources.
func NewProjected(config Config) *Plugin { return &Plugin{config: config, kind: projectedKind} }

// Format implements [fmt.Formatter]: a getter may hold secrets.
func (p *Plugin) Format(s fmt.State, _ rune) { _, _ = fmt.Fprintf(s, "plugin %s", p.kind.plugin) }

// Init implements [volume.VolumePlugin]. It requires the getter that all volumes of the
// plugin need.
func (p *Plugin) Init(ctx context.Context, host volume.VolumeHost) error {
	if p.config.Mounter == nil {
		return errors.New("content: Config.Mounter is missing")
	}
	if name, ok := p.kind.needs(p.config); !ok {
		return fmt.Errorf("content: plugin %s: Config.%s is missing", p.kind.plugin, name)
	}
	p.host, p.dirs = host, podvolume.NewDirs(host, p.config.Mounter, p.kind.plugin)
	return nil
}

// GetPluginName returns the name of the plugin.
func (p *Plugin) GetPluginName() string { return p.kind.plugin }

// GetVolumeName returns the volume's name in its pod. Volumes of different pods are
// different volumes with the same name.
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

// RequiresRemount returns true: SetUp updates a volume.
func (p *Plugin) RequiresRemount(*volume.Spec) bool { return true }

// NewMounter validates the specification: names, fields, permissions and times that the
// API allows, paths that stay in the volume and do not collide, and the mount points of
// other volumes in this one. The error is a [*field.Error] that names the field of the
// volume or the pod; for a missing getter it also wraps [volume.ErrNotSupported].
//
// GetMetrics of the volume measures its own tmpfs. A ConfigMap's volume has none: Used counts its files, see
// fsusage.Walker, at most every ten seconds; Capacity and Available are those of the node's file system.
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	source, err := p.source(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	if err := p.check(source, pod); err != nil {
		return nil, err
	}
	setDefaults(source)
	points, err := mountPoints(pod, spec.Name())
	if err != nil {
		return nil, err
	}
	dir, err := p.dir(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	only := p.kind.only(spec.Volume)
	m := &mounter{p, *only.DeepCopy(), source, pod.DeepCopy(), points}
	attributes := volume.Attributes{ReadOnly: true, Managed: true, SELinuxRelabel: true} // the files belong to the pod's group
	return podvolume.NewMounter(p.dirs, dir, attributes, m.setUp), nil
}

// NewUnmounter validates the names. The unmounter removes the volume's files.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	dir, err := p.dir(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return podvolume.NewUnmounter(p.dirs, dir), nil
}

// NewUnmounterAt implements [volume.PathVolumePlugin].
func (p *Plugin) NewUnmounterAt(path string) (volume.Unmounter, error) {
	at, err := p.dirs.Below(field.NewPath("path"), path)
	if err != nil {
		return nil, err
	}
	return podvolume.NewUnmounter(p.dirs, at), nil
}

// source requires a specification of the plugin's kind.
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

// dir returns the volume's directory for the pod after validating both names.
func (p *Plugin) dir(name string, podUID types.UID) (string, error) {
	if p.host == nil {
		return "", errNotInitialised
	}
	return p.host.PodVolumeDir(podUID, p.kind.plugin, name)
}

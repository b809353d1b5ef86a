package customplugin

import (
	"context"
	"errors"
	"path"
	"path/filepath"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// PluginName is the name of the plugin.
	PluginName = "example.com/share"
	// Driver and Attribute identify a share in a pod.
	Driver    = "share.example.com"
	Attribute = "share"
)

// Config configures the plugin.
type Config struct {
	Mounter mount.Interface // required
	Root    string          // the directory with the shares; required
}

// Plugin is the volume plugin. [New] returns one.
type Plugin struct {
	config Config
	root   string // without symbolic links
	host   volume.VolumeHost
	mounts *podvolume.Mounts
	giving keylock.Map // shares, by path
}

var (
	_ volume.VolumePlugin     = (*Plugin)(nil)
	_ volume.PathVolumePlugin = (*Plugin)(nil)
)

// New returns the plugin. Init returns an error if the configuration is invalid.
func New(config Config) *Plugin { return &Plugin{config: config} }

// Init resolves the root once.
func (p *Plugin) Init(ctx context.Context, host volume.VolumeHost) error {
	if p.config.Mounter == nil {
		return errors.New("customplugin: Config.Mounter is missing")
	}
	if !filepath.IsAbs(p.config.Root) {
		return errors.New("customplugin: Config.Root is not absolute")
	}
	root, err := filepath.EvalSymlinks(p.config.Root)
	if err != nil {
		return err
	}
	p.root, p.host, p.mounts = root, host, podvolume.NewMounts(host, p.config.Mounter)
	return nil
}

// GetPluginName returns [PluginName].
func (p *Plugin) GetPluginName() string { return PluginName }

// GetVolumeName returns the name of the share, which all pods that use it have in common.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) { return p.share(spec) }

// CanSupport reports whether the volume names this driver; NewMounter validates the rest.
func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	return spec != nil && spec.Volume != nil && spec.Volume.CSI != nil && spec.Volume.CSI.Driver == Driver
}

// share returns the validated name of a share: it becomes part of a path.
func (p *Plugin) share(spec *volume.Spec) (string, error) {
	if err := spec.Validate(); err != nil {
		return "", err
	}
	at := field.NewPath("spec", "volume", "csi")
	if !p.CanSupport(spec) {
		return "", field.Required(at.Child("driver"), "not a share")
	}
	share := spec.Volume.CSI.VolumeAttributes[Attribute]
	return share, volume.ValidatePathComponent(at.Child("volumeAttributes").Key(Attribute), share)
}

// NewMounter validates the specification, and touches no file.
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	share, err := p.share(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a share is mounted for a pod")
	}
	v, err := p.volume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	return &mounter{v, path.Join(p.root, share), spec.IsReadOnly()}, nil
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
	return &unmounter{podVolume{p, at}}, nil
}

// volume returns the volume's directory for the pod. The host refuses names that are no
// path components.
func (p *Plugin) volume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errors.New("customplugin: the plugin is not initialised")
	}
	dir, err := p.host.PodVolumeDir(podUID, PluginName, name)
	return podVolume{p, dir}, err
}

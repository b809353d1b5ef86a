package nfs

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

// PluginName is the name of the plugin.
const PluginName = "kubernetes.io/nfs"

// Config configures the plugin.
type Config struct {
	// Mounter mounts. Required. Its own configuration has the policy for unmounting a
	// volume whose server does not answer.
	Mounter mount.Interface

	// Transport selects the kernel's client or mount.nfs. It has no effect with a mounter
	// that leaves the choice to mount(8).
	Transport Transport

	// OneMountPerExport mounts each export once, for all pods whose volumes have the
	// same options, in the plugin's own directory, and binds it for each pod. It is
	// unmounted after the last of them. Without it each pod has a mount of its own,
	// as in Kubernetes.
	OneMountPerExport bool

	// Recycler empties released volumes, see [Plugin.Recycle]. The recyclers of package
	// recycler fit; their Plugin function can be the FindPluginBySpec of the manager in
	// which this plugin is registered. Nil: volumes are not recycled.
	Recycler volume.Recycler
}

// Plugin is the volume plugin. Make one with [New].
type Plugin struct {
	config  Config
	host    volume.VolumeHost
	mounts  *podvolume.Mounts
	exports *exports
}

var (
	_ volume.VolumePlugin             = (*Plugin)(nil)
	_ volume.PathVolumePlugin         = (*Plugin)(nil)
	_ volume.PersistentVolumePlugin   = (*Plugin)(nil)
	_ volume.MountOptionsVolumePlugin = (*Plugin)(nil)
	_ volume.RecyclableVolumePlugin   = (*Plugin)(nil)
)

// New returns the plugin. Init returns an error if the configuration is invalid.
func New(config Config) *Plugin { return &Plugin{config: config} }

// Init implements [volume.VolumePlugin].
func (p *Plugin) Init(ctx context.Context, host volume.VolumeHost) error {
	if p.config.Mounter == nil {
		return errors.New("nfs: Config.Mounter is missing")
	}
	if err := p.config.Transport.check(); err != nil {
		return fmt.Errorf("nfs: %w", err)
	}
	dir, err := host.PluginDir(PluginName)
	if err != nil {
		return fmt.Errorf("nfs: %w", err)
	}
	mounts := podvolume.NewMounts(host, p.config.Mounter)
	p.host, p.mounts = host, mounts
	p.exports = &exports{dir: dir + "/mounts", mounts: mounts, mounter: p.config.Mounter}
	return nil
}

// GetPluginName returns [PluginName].
func (p *Plugin) GetPluginName() string { return PluginName }

// GetVolumeName returns "server/path", equal for equivalent spellings of addresses, of
// upper and lower case in names, and of slashes. Two names of one server differ.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	s, err := p.source(spec)
	if err != nil {
		return "", err
	}
	return s.volumeName(), nil
}

// GetBackendName returns the server, on which operations on its exports wait.
func (p *Plugin) GetBackendName(spec *volume.Spec) (string, error) {
	s, err := p.source(spec)
	return s.server, err
}

// CanSupport reports whether the volume is an NFS export, in a pod or in a persistent
// volume.
func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	written, _ := sourceOf(spec)
	return written != nil
}

// GetAccessModes returns all modes.
func (p *Plugin) GetAccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{
		v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod,
	}
}

// SupportsMountOption returns true.
func (p *Plugin) SupportsMountOption() bool { return true }

// Recycle implements [volume.Recycler] by [Config.Recycler]. Without one, or if the volume
// is read-only, the error wraps [volume.ErrNotSupported].
func (p *Plugin) Recycle(ctx context.Context, name string, spec *volume.Spec) error {
	if _, err := p.source(spec); err != nil {
		return err
	}
	switch {
	case p.config.Recycler == nil:
		return fmt.Errorf("recycle without nfs.Config.Recycler: %w", volume.ErrNotSupported)
	case spec.IsReadOnly():
		return fmt.Errorf("recycle a read-only volume: %w", volume.ErrNotSupported)
	}
	return p.config.Recycler.Recycle(ctx, name, spec)
}

// NewMounter validates the specification: the server, the path, and the options, which
// must be allowed ones of nfs(5) with values of their kind, without contradictions among
// each other or with read-only. The error is a [*field.Error]; that of a block volume
// wraps [volume.ErrNotSupported].
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	s, err := p.source(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	w, err := parseOptions(spec)
	if err != nil {
		return nil, err
	}
	if err := p.config.Transport.checkWish(spec, w); err != nil {
		return nil, err
	}
	if err := w.checkReadOnly(spec); err != nil {
		return nil, err
	}
	v, err := p.volume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	return &mounter{podVolume: v, source: s, wish: w, readOnly: spec.IsReadOnly()}, nil
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

// source returns the export of a specification, validated except for its options.
func (p *Plugin) source(spec *volume.Spec) (source, error) {
	if err := spec.Validate(); err != nil {
		return source{}, err
	}
	written, at := sourceOf(spec)
	if written == nil {
		return source{}, field.Required(field.NewPath("spec", "volume", "nfs"), "not an NFS volume")
	}
	if spec.IsBlock() {
		return source{}, fmt.Errorf("block volume %s: %w", spec.Name(), volume.ErrNotSupported)
	}
	return parseSource(at, written)
}

var errNotInitialised = errors.New("nfs: the plugin is not initialised")

// volume returns the directory of a volume for a pod. It refuses an invalid name or pod UID.
func (p *Plugin) volume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errNotInitialised
	}
	dir, err := p.host.PodVolumeDir(podUID, PluginName, name)
	return podVolume{plugin: p, path: dir}, err
}

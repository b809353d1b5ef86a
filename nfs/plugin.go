package nfs

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PluginName is the name of the plugin.
const PluginName = "kubernetes.io/nfs"

// Config is what the plugin needs.
type Config struct {
	// Mounter mounts. Required. What it does about a server that does not answer
	// when a volume is taken down is in its own configuration.
	Mounter mount.Interface

	// Transport says who speaks to the server: the kernel, or mount.nfs. With a
	// mounter that itself leaves this to mount(8) it means nothing.
	Transport Transport

	// OneMountPerExport mounts each export once, for all pods whose volumes have the
	// same options, in the plugin's own directory, and binds it for each pod. It is
	// unmounted after the last of them. Without it each pod has a mount of its own,
	// as in Kubernetes.
	OneMountPerExport bool

	// Recycler empties released volumes, see [Plugin.Recycle]: such as one of package
	// recycler, whose way to a plugin can be the plugin manager that this one is in.
	// Nil: volumes are not recycled.
	Recycler volume.Recycler
}

// Plugin is the volume plugin. Make one with [New].
type Plugin struct {
	config  Config
	host    volume.VolumeHost
	mounts  *util.PodMounts
	exports *exports
}

var (
	_ volume.VolumePlugin             = (*Plugin)(nil)
	_ volume.PersistentVolumePlugin   = (*Plugin)(nil)
	_ volume.MountOptionsVolumePlugin = (*Plugin)(nil)
	_ volume.RecyclableVolumePlugin   = (*Plugin)(nil)
)

// New returns the plugin. What is wrong with the configuration is an error of Init.
func New(config Config) *Plugin { return &Plugin{config: config} }

// Init implements [volume.VolumePlugin].
func (p *Plugin) Init(host volume.VolumeHost) error {
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
	mounts := util.NewPodMounts(host, p.config.Mounter)
	p.host, p.mounts = host, mounts
	p.exports = &exports{dir: dir + "/mounts", mounts: mounts, mounter: p.config.Mounter}
	return nil
}

// GetPluginName returns [PluginName].
func (p *Plugin) GetPluginName() string { return PluginName }

// GetVolumeName returns "server/path", equal for two ways to write the same: of
// addresses, upper and lower case in names, slashes. That two names are of one
// server it does not know.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	s, err := p.source(spec)
	if err != nil {
		return "", err
	}
	return s.volumeName(), nil
}

// CanSupport reports whether the volume is an NFS export, written in a pod or a
// persistent one.
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

// Recycle implements [volume.Recycler] with the one of the configuration. Without one,
// or if the volume is read-only, the error wraps [volume.ErrNotSupported].
func (p *Plugin) Recycle(ctx context.Context, name string, spec *volume.Spec) error {
	if _, err := p.source(spec); err != nil {
		return err
	}
	switch {
	case p.config.Recycler == nil:
		return fmt.Errorf("recycling without nfs.Config.Recycler: %w", volume.ErrNotSupported)
	case spec.IsReadOnly():
		return fmt.Errorf("recycling a read-only volume: %w", volume.ErrNotSupported)
	}
	return p.config.Recycler.Recycle(ctx, name, spec)
}

// NewMounter checks the specification: the server, the path, and that the options
// are ones of nfs(5) that the volume may have, with values of their kind, and none
// contradicts another or read-only. The error is a [*field.Error]; a block volume's
// wraps [volume.ErrNotSupported].
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	s, err := p.source(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume is mounted for a pod")
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

// NewUnmounter needs the names alone.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	v, err := p.volume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return &unmounter{v}, nil
}

// source returns the export of a specification that is in order, but for its
// options.
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

// volume returns the volume's place for the pod, once its names are in order.
func (p *Plugin) volume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errNotInitialised
	}
	dir, err := p.host.PodVolumeDir(podUID, PluginName, name)
	return podVolume{plugin: p, path: dir}, err
}

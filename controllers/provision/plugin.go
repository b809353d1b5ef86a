package provision

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FromPlugin returns the Provisioner of a volume plugin. The plugin must be a
// [volume.ProvisionableVolumePlugin] and a [volume.DeletableVolumePlugin]; otherwise the error wraps
// [volume.ErrNotSupported]. The result provisions raw block devices, and volumes from data sources, if the
// plugin does. Classes with mount options require a [volume.MountOptionsVolumePlugin]. Of volumes of
// a plugin that attaches, the controller also reads the nodes before it deletes storage.
func FromPlugin(plugin volume.VolumePlugin) (Provisioner, error) {
	p := &pluginProvisioner{plugin: plugin}
	var ok bool
	if p.provisionable, ok = volume.As[volume.ProvisionableVolumePlugin](plugin); !ok {
		return nil, errNotProvisionable(plugin)
	}
	if p.deletable, ok = volume.As[volume.DeletableVolumePlugin](plugin); !ok {
		return nil, errNotDeletable(plugin)
	}
	return p, nil
}

// FromDeletablePlugin returns the Provisioner of a plugin that deletes volumes and need not provision any: its
// Provision fails with an error that wraps [volume.ErrNotSupported]. The plugin must be a
// [volume.DeletableVolumePlugin]; otherwise the error wraps volume.ErrNotSupported. Let Config.Qualifier
// refuse all claims.
func FromDeletablePlugin(plugin volume.VolumePlugin) (Provisioner, error) {
	p := &pluginProvisioner{plugin: plugin}
	var ok bool
	if p.deletable, ok = volume.As[volume.DeletableVolumePlugin](plugin); !ok {
		return nil, errNotDeletable(plugin)
	}
	return p, nil
}

func errNotProvisionable(plugin volume.VolumePlugin) error {
	return fmt.Errorf("provision: plugin %q does not provision volumes: %w", plugin.GetPluginName(), volume.ErrNotSupported)
}

func errNotDeletable(plugin volume.VolumePlugin) error {
	return fmt.Errorf("provision: plugin %q does not delete volumes: %w", plugin.GetPluginName(), volume.ErrNotSupported)
}

// A pluginProvisioner provisions by a plugin.
type pluginProvisioner struct {
	plugin        volume.VolumePlugin
	provisionable volume.ProvisionableVolumePlugin // nil: the plugin does not provision
	deletable     volume.DeletableVolumePlugin
}

func (p *pluginProvisioner) Provision(ctx context.Context, options Options) (*v1.PersistentVolume, error) {
	if p.provisionable == nil {
		return nil, errNotProvisionable(p.plugin)
	}
	provisioner, err := p.provisionable.NewProvisioner(options)
	if err != nil {
		return nil, err
	}
	return provisioner.Provision(ctx)
}

func (p *pluginProvisioner) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	deleter, err := p.deletable.NewDeleter(volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil {
		return err
	}
	return deleter.Delete(ctx)
}

// SupportsBlock implements [volume.BlockProvisioner].
func (p *pluginProvisioner) SupportsBlock(ctx context.Context) bool {
	blocks, ok := volume.As[volume.BlockProvisioner](p.plugin)
	return ok && blocks.SupportsBlock(ctx)
}

// SupportsSource implements [volume.SourceProvisioner].
func (p *pluginProvisioner) SupportsSource(ctx context.Context, kind schema.GroupKind) bool {
	sources, ok := volume.As[volume.SourceProvisioner](p.plugin)
	return ok && sources.SupportsSource(ctx, kind)
}

// supportsMountOptions implements mountOptioner.
func (p *pluginProvisioner) supportsMountOptions() bool {
	able, ok := volume.As[volume.MountOptionsVolumePlugin](p.plugin)
	return ok && able.SupportsMountOption()
}

// uniqueName implements uniqueNamer.
func (p *pluginProvisioner) uniqueName(pv *v1.PersistentVolume) (v1.UniqueVolumeName, error) {
	if _, ok := volume.As[volume.AttachableVolumePlugin](p.plugin); !ok {
		return "", nil
	}
	name, err := p.plugin.GetVolumeName(volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil {
		return "", fmt.Errorf("name volume %q: %w", pv.Name, err)
	}
	return util.GetUniqueVolumeName(p.plugin.GetPluginName(), name), nil
}

package volumetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/volume"
)

var (
	_ volume.ProvisionableVolumePlugin = (*FakePlugin)(nil)
	_ volume.BlockProvisioner          = (*FakePlugin)(nil)
	_ volume.DeletableVolumePlugin     = (*FakePlugin)(nil)
)

// SupportsBlock implements [volume.BlockProvisioner].
func (p *FakePlugin) SupportsBlock(ctx context.Context) bool { return ctx.Err() == nil }

// NewProvisioner implements [volume.ProvisionableVolumePlugin]. The storage is a directory
// in the plugin's own. Provision refuses
//
//   - a class with another provisioner than the plugin's name: *volume.IgnoredError;
//   - a claim with a selector: volume.ErrInfeasible;
//   - a selected node that is not one of FakeConfig.Nodes: volume.ErrReschedule.
func (p *FakePlugin) NewProvisioner(options volume.VolumeOptions) (volume.Provisioner, error) {
	if err := p.count(NewProvisioner); err != nil {
		return nil, err
	}
	if err := volume.ValidatePathComponent(field.NewPath("options", "pvName"), options.PVName); err != nil {
		return nil, err
	}
	return &fakeProvisioner{p, options}, nil
}

// NewDeleter implements [volume.DeletableVolumePlugin]. A volume that no provisioner of this
// plugin has created is a *volume.IgnoredError.
func (p *FakePlugin) NewDeleter(spec *volume.Spec) (volume.Deleter, error) {
	if err := p.count(NewDeleter); err != nil {
		return nil, err
	}
	source, err := p.source(spec)
	if err != nil {
		return nil, err
	}
	ours, err := p.pluginPath("provisioned", spec.Name())
	if err != nil {
		return nil, err
	}
	if source != ours {
		return nil, &volume.IgnoredError{Reason: "the volume was not provisioned by " + p.config.Name}
	}
	return &fakeDeleter{p, ours}, nil
}

type fakeProvisioner struct {
	plugin  *FakePlugin
	options volume.VolumeOptions
}

func (f *fakeProvisioner) Provision(ctx context.Context) (*v1.PersistentVolume, error) {
	var pv *v1.PersistentVolume
	err := f.plugin.call(ctx, Provision, func() error {
		if err := f.check(); err != nil {
			return err
		}
		dir, err := f.plugin.pluginPath("provisioned", f.options.PVName)
		if err != nil {
			return err
		}
		if err := makeDirs(dir); err != nil {
			return err
		}
		pv = f.describe(dir)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return pv, nil
}

// check refuses invalid options, see NewProvisioner.
func (f *fakeProvisioner) check() error {
	o := f.options
	if class := o.StorageClass; class.Provisioner != "" && class.Provisioner != f.plugin.config.Name {
		return &volume.IgnoredError{Reason: fmt.Sprintf("class %q has another provisioner", class.Name)}
	}
	if o.PVC != nil && o.PVC.Spec.Selector != nil {
		return fmt.Errorf("claim %q has a selector: %w", o.PVC.Name, volume.ErrInfeasible)
	}
	nodes := f.plugin.config.Nodes
	if o.SelectedNode != nil && len(nodes) > 0 && !slices.Contains(nodes, types.NodeName(o.SelectedNode.Name)) {
		return fmt.Errorf("node %q reaches no storage: %w", o.SelectedNode.Name, volume.ErrReschedule)
	}
	return nil
}

func (f *fakeProvisioner) describe(dir string) *v1.PersistentVolume {
	pv, class := f.plugin.NewSpec(f.options.PVName, dir).PersistentVolume, f.options.StorageClass
	if class.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	pv.Spec.MountOptions = slices.Clone(class.MountOptions)
	if name := f.options.VolumeAttributesClass.Name; name != "" {
		pv.Spec.VolumeAttributesClassName = &name
	}
	if claim := f.options.PVC; claim != nil {
		pv.Spec.AccessModes = claim.Spec.AccessModes
		pv.Spec.VolumeMode = claim.Spec.VolumeMode
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]}
	}
	pv.Spec.NodeAffinity = affinityTo(f.plugin.config.Nodes)
	return pv
}

// affinityTo returns an affinity to the nodes; nil for no nodes: every node reaches the storage.
func affinityTo(nodes []types.NodeName) *v1.VolumeNodeAffinity {
	if len(nodes) == 0 {
		return nil
	}
	hostname := v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn}
	for _, node := range nodes {
		hostname.Values = append(hostname.Values, string(node))
	}
	term := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{hostname}}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}
}

// A fakeDeleter deletes an empty directory only: the fake never deletes a file.
type fakeDeleter struct {
	plugin *FakePlugin
	dir    string
}

func (d *fakeDeleter) Delete(ctx context.Context) error {
	return d.plugin.call(ctx, Delete, func() error {
		if err := os.Remove(d.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

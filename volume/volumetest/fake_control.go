package volumetest

import (
	"context"
	"errors"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/volume"
)

var (
	_ volume.PersistentVolumePlugin     = (*FakePlugin)(nil)
	_ volume.MountOptionsVolumePlugin   = (*FakePlugin)(nil)
	_ volume.RemountVolumePlugin        = (*FakePlugin)(nil)
	_ volume.SELinuxVolumePlugin        = (*FakePlugin)(nil)
	_ volume.RecyclableVolumePlugin     = (*FakePlugin)(nil)
	_ volume.DeletableVolumePlugin      = (*FakePlugin)(nil)
	_ volume.ProvisionableVolumePlugin  = (*FakePlugin)(nil)
	_ volume.ExpandableVolumePlugin     = (*FakePlugin)(nil)
	_ volume.NodeExpandableVolumePlugin = (*FakePlugin)(nil)
)

// GetAccessModes implements [volume.PersistentVolumePlugin].
func (p *FakePlugin) GetAccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{
		v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod,
	}
}

// SupportsMountOption implements [volume.MountOptionsVolumePlugin]. Only "ro" has
// an effect.
func (p *FakePlugin) SupportsMountOption() bool { return true }

// RequiresRemount implements [volume.RemountVolumePlugin].
func (p *FakePlugin) RequiresRemount(*volume.Spec) bool { return false }

// SupportsSELinuxContextMount implements [volume.SELinuxVolumePlugin].
func (p *FakePlugin) SupportsSELinuxContextMount(*volume.Spec) (bool, error) { return false, nil }

// RequiresFSResize implements [volume.ExpandableVolumePlugin] and
// [volume.NodeExpandableVolumePlugin].
func (p *FakePlugin) RequiresFSResize() bool { return true }

// Recycle implements [volume.RecyclableVolumePlugin], as far as checking what it
// is given. It touches no file.
func (p *FakePlugin) Recycle(ctx context.Context, _ string, spec *volume.Spec) error {
	return p.call(ctx, Recycle, func() error {
		_, err := p.source(spec)
		return err
	})
}

// ExpandVolumeDevice implements [volume.ExpandableVolumePlugin].
func (p *FakePlugin) ExpandVolumeDevice(ctx context.Context, req volume.ExpandRequest) (volume.ExpandResult, error) {
	result := volume.ExpandResult{Size: req.OldSize}
	err := p.call(ctx, ExpandVolumeDevice, func() error {
		if req.NewSize.Cmp(req.OldSize) > 0 {
			result.Size = req.NewSize
		}
		return nil
	})
	return result, err
}

// NodeExpand implements [volume.NodeExpandableVolumePlugin].
func (p *FakePlugin) NodeExpand(ctx context.Context, req volume.NodeResizeOptions) (done bool, err error) {
	err = p.call(ctx, NodeExpand, func() error {
		if _, err := p.source(req.Spec); err != nil {
			return err
		}
		done = p.hasRoom(req)
		return nil
	})
	return done && err == nil, err
}

// hasRoom computes nothing with what somebody else wrote.
func (p *FakePlugin) hasRoom(req volume.NodeResizeOptions) bool {
	if p.config.Size == nil {
		return true
	}
	size, ok := req.NewSize.AsInt64()
	return ok && size <= p.config.Size(req.Spec)
}

// NewProvisioner implements [volume.ProvisionableVolumePlugin]. What it creates
// is a directory in the plugin's own.
func (p *FakePlugin) NewProvisioner(options volume.VolumeOptions) (volume.Provisioner, error) {
	if err := p.count(NewProvisioner); err != nil {
		return nil, err
	}
	if err := volume.ValidatePathComponent(field.NewPath("options", "pvName"), options.PVName); err != nil {
		return nil, err
	}
	return &fakeProvisioner{p, options}, nil
}

// NewDeleter implements [volume.DeletableVolumePlugin].
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
		return nil, field.Forbidden(field.NewPath("spec"), "the volume was not made by a provisioner of this plugin")
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
		dir, err := f.plugin.pluginPath("provisioned", f.options.PVName)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
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

func (f *fakeProvisioner) describe(dir string) *v1.PersistentVolume {
	pv := f.plugin.NewSpec(f.options.PVName, dir).PersistentVolume
	pv.Spec.PersistentVolumeReclaimPolicy = f.options.PersistentVolumeReclaimPolicy
	pv.Spec.MountOptions = f.options.MountOptions
	if claim := f.options.PVC; claim != nil {
		pv.Spec.AccessModes = claim.Spec.AccessModes
		pv.Spec.VolumeMode = claim.Spec.VolumeMode
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]}
	}
	return pv
}

// A fakeDeleter only deletes what is empty: the fake never deletes a file.
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

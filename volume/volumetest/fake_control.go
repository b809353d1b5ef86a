package volumetest

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/volume"
)

var (
	_ volume.PathVolumePlugin           = (*FakePlugin)(nil)
	_ volume.PersistentVolumePlugin     = (*FakePlugin)(nil)
	_ volume.MountOptionsVolumePlugin   = (*FakePlugin)(nil)
	_ volume.RemountVolumePlugin        = (*FakePlugin)(nil)
	_ volume.SELinuxVolumePlugin        = (*FakePlugin)(nil)
	_ volume.RecyclableVolumePlugin     = (*FakePlugin)(nil)
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

// Recycle implements [volume.RecyclableVolumePlugin]. It validates its arguments, and touches
// no file.
func (p *FakePlugin) Recycle(ctx context.Context, _ string, spec *volume.Spec) error {
	return p.call(ctx, Recycle, func() error {
		_, err := p.source(spec)
		return err
	})
}

// ExpandVolumeDevice implements [volume.ExpandableVolumePlugin], see FakeConfig.MaxSize and
// FakeConfig.OfflineExpansion. A node has work to do unless the volume is a raw device.
func (p *FakePlugin) ExpandVolumeDevice(ctx context.Context, req volume.ExpandRequest) (volume.ExpandResult, error) {
	var result volume.ExpandResult
	err := p.call(ctx, ExpandVolumeDevice, func() error {
		name, err := p.source(req.Spec)
		if err != nil {
			return err
		}
		if result.Size, err = p.enlarge(name, req); err == nil {
			result.NodeExpansionRequired = !req.Spec.IsBlock()
		}
		return err
	})
	return result, err
}

// enlarge returns the new size of the storage, and records it.
func (p *FakePlugin) enlarge(name string, req volume.ExpandRequest) (resource.Quantity, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := req.OldSize
	if known, ok := p.expanded[name]; ok && known.Cmp(size) > 0 {
		size = known
	}
	switch {
	case req.NewSize.Cmp(size) <= 0:
		return size, nil
	case p.config.MaxSize > 0 && req.NewSize.CmpInt64(p.config.MaxSize) > 0:
		return size, fmt.Errorf("expand volume %q: %w", req.Spec.Name(), volume.ErrInfeasible)
	case p.config.OfflineExpansion && len(p.attached[name]) > 0:
		return size, fmt.Errorf("expand volume %q, which is attached: %w", req.Spec.Name(), volume.ErrFailedPrecondition)
	}
	p.expanded[name] = req.NewSize
	return req.NewSize, nil
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

// hasRoom reports whether the storage has the new size. It does no arithmetic with untrusted
// quantities.
func (p *FakePlugin) hasRoom(req volume.NodeResizeOptions) bool {
	if p.config.Size == nil {
		return true
	}
	size, ok := req.NewSize.AsInt64()
	return ok && size <= p.config.Size(req.Spec)
}

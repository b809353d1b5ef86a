package volumetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

var (
	_ volume.AttachableVolumePlugin      = (*FakePlugin)(nil)
	_ volume.DeviceMountableVolumePlugin = (*FakePlugin)(nil)
)

// AttachedTo returns the nodes to which a volume is attached, sorted, by the name that
// GetVolumeName returns. It is safe for concurrent use.
func (p *FakePlugin) AttachedTo(volumeName string) []types.NodeName {
	p.mu.Lock()
	defer p.mu.Unlock()
	var nodes []types.NodeName
	for node := range p.attached[volumeName] {
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	return nodes
}

// NewAttacher implements [volume.AttachableVolumePlugin].
func (p *FakePlugin) NewAttacher() (volume.Attacher, error) {
	if err := p.count(NewAttacher); err != nil {
		return nil, err
	}
	return &fakeAttacher{p}, nil
}

// NewDetacher implements [volume.AttachableVolumePlugin].
func (p *FakePlugin) NewDetacher() (volume.Detacher, error) {
	if err := p.count(NewDetacher); err != nil {
		return nil, err
	}
	return &fakeAttacher{p}, nil
}

// CanAttach implements [volume.AttachableVolumePlugin].
func (p *FakePlugin) CanAttach(ctx context.Context, spec *volume.Spec) (bool, error) {
	if err := p.count(CanAttach); err != nil {
		return false, err
	}
	return !p.config.NoAttach && p.supports(spec), nil
}

// NewDeviceMounter implements [volume.DeviceMountableVolumePlugin].
func (p *FakePlugin) NewDeviceMounter() (volume.DeviceMounter, error) {
	if err := p.count(NewDeviceMounter); err != nil {
		return nil, err
	}
	return &fakeDeviceMounter{p}, nil
}

// NewDeviceUnmounter implements [volume.DeviceMountableVolumePlugin].
func (p *FakePlugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) {
	if err := p.count(NewDeviceUnmounter); err != nil {
		return nil, err
	}
	return &fakeDeviceMounter{p}, nil
}

// GetDeviceMountRefs implements [volume.DeviceMountableVolumePlugin].
func (p *FakePlugin) GetDeviceMountRefs(ctx context.Context, deviceMountPath string) (refs []string, err error) {
	err = p.call(ctx, GetDeviceMountRefs, func() (err error) {
		refs, err = p.config.Mounter.MountRefs(ctx, deviceMountPath)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // no references
		}
		return err
	})
	return refs, err
}

// CanDeviceMount implements [volume.DeviceMountableVolumePlugin].
func (p *FakePlugin) CanDeviceMount(ctx context.Context, spec *volume.Spec) (bool, error) {
	if err := p.count(CanDeviceMount); err != nil {
		return false, err
	}
	return !p.config.NoDeviceMount && p.supports(spec), nil
}

type fakeAttacher struct{ plugin *FakePlugin }

// Attach refuses a second node for a persistent volume whose access modes allow one node, and
// a volume beyond FakeConfig.MaxVolumes of the node.
func (a *fakeAttacher) Attach(ctx context.Context, spec *volume.Spec, node types.NodeName) (devicePath string, err error) {
	err = a.plugin.call(ctx, Attach, func() error {
		name, err := a.plugin.source(spec)
		if err != nil {
			return err
		}
		if err := a.plugin.attach(spec, name, node); err != nil {
			return err
		}
		devicePath = fakeDevice(name)
		return nil
	})
	return devicePath, err
}

func (a *fakeAttacher) VolumesAreAttached(ctx context.Context, specs []*volume.Spec, node types.NodeName) (map[*volume.Spec]bool, error) {
	attached := make(map[*volume.Spec]bool, len(specs))
	err := a.plugin.call(ctx, VolumesAreAttached, func() error {
		for _, spec := range specs {
			name, err := a.plugin.source(spec)
			if err != nil {
				return err
			}
			attached[spec] = slices.Contains(a.plugin.AttachedTo(name), node)
		}
		return nil
	})
	return attached, err
}

// WaitForAttach does not wait: it returns a transient error for a volume that is not attached.
func (a *fakeAttacher) WaitForAttach(ctx context.Context, spec *volume.Spec, devicePath string, _ *v1.Pod) (string, error) {
	err := a.plugin.call(ctx, WaitForAttach, func() error {
		name, err := a.plugin.source(spec)
		if err != nil {
			return err
		}
		if len(a.plugin.AttachedTo(name)) == 0 {
			return volume.AsTransient(fmt.Errorf("volume %q is not attached", spec.Name()))
		}
		devicePath = fakeDevice(name)
		return nil
	})
	return devicePath, err
}

func (a *fakeAttacher) Detach(ctx context.Context, req volume.DetachRequest) error {
	return a.plugin.call(ctx, Detach, func() error {
		a.plugin.mu.Lock()
		defer a.plugin.mu.Unlock()
		delete(a.plugin.attached[req.VolumeName], req.Node)
		return nil
	})
}

func (p *FakePlugin) attach(spec *volume.Spec, name string, node types.NodeName) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attached[name][node] {
		return nil
	}
	for other := range p.attached[name] {
		if isForOneNode(spec) {
			return &volume.DanglingAttachError{CurrentNode: other, DevicePath: fakeDevice(name)}
		}
	}
	if p.config.MaxVolumes > 0 && p.countAttached(node) >= p.config.MaxVolumes {
		return fmt.Errorf("attach volume %q to %q: %w", spec.Name(), node, volume.ErrMaxVolumeCountExceeded)
	}
	if p.attached[name] == nil {
		p.attached[name] = map[types.NodeName]bool{}
	}
	p.attached[name][node] = true
	return nil
}

// countAttached returns the number of volumes attached to the node. The caller holds mu.
func (p *FakePlugin) countAttached(node types.NodeName) (n int) {
	for _, nodes := range p.attached {
		if nodes[node] {
			n++
		}
	}
	return n
}

// isForOneNode reports whether a persistent volume has access modes, and none of them allows
// several nodes.
func isForOneNode(spec *volume.Spec) bool {
	if spec.PersistentVolume == nil || len(spec.PersistentVolume.Spec.AccessModes) == 0 {
		return false
	}
	return !slices.ContainsFunc(spec.PersistentVolume.Spec.AccessModes, func(mode v1.PersistentVolumeAccessMode) bool {
		return mode == v1.ReadOnlyMany || mode == v1.ReadWriteMany
	})
}

// fakeDevice returns a path that does not exist.
func fakeDevice(volumeName string) string {
	return "/dev/volumekit-fake" + filepath.ToSlash(volumeName)
}

type fakeDeviceMounter struct{ plugin *FakePlugin }

func (m *fakeDeviceMounter) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	if err := spec.Validate(); err != nil {
		return "", err
	}
	return m.plugin.pluginPath("mounts", spec.Name())
}

func (m *fakeDeviceMounter) MountDevice(ctx context.Context, spec *volume.Spec, deviceMountPath string, _ volume.DeviceMounterArgs) error {
	return m.plugin.call(ctx, MountDevice, func() error {
		source, err := m.plugin.source(spec)
		if err != nil {
			return err
		}
		return m.plugin.bringUp(ctx, source, deviceMountPath, spec.IsReadOnly())
	})
}

func (m *fakeDeviceMounter) UnmountDevice(ctx context.Context, deviceMountPath string) error {
	return m.plugin.call(ctx, UnmountDevice, func() error {
		return m.plugin.takeDown(ctx, deviceMountPath)
	})
}

// pluginPath returns a path in the plugin's own directory. Name must be valid.
func (p *FakePlugin) pluginPath(kind, name string) (string, error) {
	host, err := p.getHost()
	if err != nil {
		return "", err
	}
	dir, err := host.PluginDir(p.config.Name)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, kind, name), nil
}

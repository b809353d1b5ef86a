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

// AttachedTo returns the nodes that a volume, as GetVolumeName calls it, is
// attached to, sorted. Safe for concurrent use.
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
func (p *FakePlugin) CanAttach(spec *volume.Spec) (bool, error) {
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
			return nil // nothing is mounted there
		}
		return err
	})
	return refs, err
}

// CanDeviceMount implements [volume.DeviceMountableVolumePlugin].
func (p *FakePlugin) CanDeviceMount(spec *volume.Spec) (bool, error) {
	if err := p.count(CanDeviceMount); err != nil {
		return false, err
	}
	return !p.config.NoDeviceMount && p.supports(spec), nil
}

type fakeAttacher struct{ plugin *FakePlugin }

func (a *fakeAttacher) Attach(ctx context.Context, spec *volume.Spec, node types.NodeName) (devicePath string, err error) {
	err = a.plugin.call(ctx, Attach, func() error {
		name, err := a.plugin.source(spec)
		if err != nil {
			return err
		}
		a.plugin.setAttached(name, node)
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

// WaitForAttach does not wait: what is not attached is a transient error.
func (a *fakeAttacher) WaitForAttach(ctx context.Context, spec *volume.Spec, devicePath string, _ *v1.Pod) (string, error) {
	err := a.plugin.call(ctx, WaitForAttach, func() error {
		name, err := a.plugin.source(spec)
		if err != nil {
			return err
		}
		if len(a.plugin.AttachedTo(name)) == 0 {
			return fmt.Errorf("volume %q is not attached: %w", spec.Name(), volume.ErrTransient)
		}
		devicePath = fakeDevice(name)
		return nil
	})
	return devicePath, err
}

func (a *fakeAttacher) Detach(ctx context.Context, volumeName string, node types.NodeName) error {
	return a.plugin.call(ctx, Detach, func() error {
		a.plugin.mu.Lock()
		defer a.plugin.mu.Unlock()
		delete(a.plugin.attached[volumeName], node)
		return nil
	})
}

func (p *FakePlugin) setAttached(name string, node types.NodeName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attached[name] == nil {
		p.attached[name] = map[types.NodeName]bool{}
	}
	p.attached[name][node] = true
}

// fakeDevice returns a path at which nothing is.
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

// pluginPath returns a path in the plugin's own directory. Name is checked.
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

package volume

import (
	"context"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
)

// FindPluginBySpec returns the plugin that supports the volume. A specification
// that [Spec.Validate] refuses is refused with its error, and no plugin sees it.
// If no plugin supports the volume the error wraps [ErrNoPluginMatched]; if
// several do it is a [*MultiplePluginsError].
func (m *VolumePluginMgr) FindPluginBySpec(spec *Spec) (VolumePlugin, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	var found VolumePlugin
	var names []string
	for _, r := range m.snapshot().sorted {
		if r.plugin.CanSupport(spec) {
			found = r.plugin
			names = append(names, r.name)
		}
	}
	switch len(names) {
	case 0:
		return nil, fmt.Errorf("%s: %w", spec.describe(), ErrNoPluginMatched)
	case 1:
		return found, nil
	}
	return nil, fmt.Errorf("%s: %w", spec.describe(), &MultiplePluginsError{Names: names})
}

// FindPluginByName returns the plugin that is registered under the name. If
// there is none the error wraps [ErrNoPluginMatched].
func (m *VolumePluginMgr) FindPluginByName(name string) (VolumePlugin, error) {
	if plugin, ok := m.snapshot().byName[name]; ok {
		return plugin, nil
	}
	return nil, fmt.Errorf("plugin %s: %w", input.Quote(name), ErrNoPluginMatched)
}

// FindBySpec returns the ability A of the plugin that supports the volume, as
// [As] finds it. A plugin that lacks the ability is no error: ok is false. The
// errors are those of [VolumePluginMgr.FindPluginBySpec].
func FindBySpec[A any](m *VolumePluginMgr, spec *Spec) (ability A, ok bool, err error) {
	plugin, err := m.FindPluginBySpec(spec)
	if err != nil {
		return ability, false, err
	}
	ability, ok = As[A](plugin)
	return ability, ok, nil
}

// FindByName is [FindBySpec] for the plugin of that name. The errors are those
// of [VolumePluginMgr.FindPluginByName].
func FindByName[A any](m *VolumePluginMgr, name string) (ability A, ok bool, err error) {
	plugin, err := m.FindPluginByName(name)
	if err != nil {
		return ability, false, err
	}
	ability, ok = As[A](plugin)
	return ability, ok, nil
}

// FindAttachablePluginBySpec returns the plugin of the volume if this volume has
// to be attached. A volume that needs no attaching is no error: ok is false. The
// errors are those of [VolumePluginMgr.FindPluginBySpec] and CanAttach.
func (m *VolumePluginMgr) FindAttachablePluginBySpec(ctx context.Context, spec *Spec) (plugin AttachableVolumePlugin, ok bool, err error) {
	plugin, ok, err = FindBySpec[AttachableVolumePlugin](m, spec)
	if err != nil || !ok {
		return nil, false, err
	}
	if ok, err = plugin.CanAttach(ctx, spec); err != nil || !ok {
		return nil, false, err
	}
	return plugin, true, nil
}

// FindDeviceMountablePluginBySpec returns the plugin of the volume if this volume
// has a device to be mounted before a pod's mount. A volume without one is no
// error: ok is false. The errors are those of [VolumePluginMgr.FindPluginBySpec]
// and CanDeviceMount.
func (m *VolumePluginMgr) FindDeviceMountablePluginBySpec(ctx context.Context, spec *Spec) (plugin DeviceMountableVolumePlugin, ok bool, err error) {
	plugin, ok, err = FindBySpec[DeviceMountableVolumePlugin](m, spec)
	if err != nil || !ok {
		return nil, false, err
	}
	if ok, err = plugin.CanDeviceMount(ctx, spec); err != nil || !ok {
		return nil, false, err
	}
	return plugin, true, nil
}

// describe says which volume an error is about. The specification is valid.
func (s *Spec) describe() string {
	kind := "volume"
	if s.PersistentVolume != nil {
		kind = "persistent volume"
	}
	source := "without a source"
	if names := s.sourceNames(); len(names) > 0 {
		source = "of kind " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s %s %s", kind, input.Quote(s.Name()), source)
}

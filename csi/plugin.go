package csi

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var errNotInitialised = errors.New("csi: the plugin is not initialised")

// GetPluginName returns [PluginName].
func (p *Plugin) GetPluginName() string { return PluginName }

// CanSupport reports whether the volume is one of a CSI driver, in a pod or persistent.
func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	inline, persistent := sourcesOf(spec)
	return inline != nil || persistent != nil
}

// GetVolumeName returns "driver^handle" for a persistent volume, as a kubelet names it in
// node.status. For an inline volume, whose handle depends on the pod, it returns "driver^name".
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	s, err := sourceOf(spec)
	if err != nil {
		return "", err
	}
	if s.inline != nil {
		return volumeName(s.driver, s.name), nil
	}
	return volumeName(s.driver, s.handle), nil
}

// GetBackendName returns the name of the driver.
func (p *Plugin) GetBackendName(spec *volume.Spec) (string, error) {
	s, err := sourceOf(spec)
	return s.driver, err
}

// GetAccessModes returns all modes. A driver refuses those that it lacks.
func (p *Plugin) GetAccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{
		v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod,
	}
}

// SupportsMountOption returns true. A driver refuses options that it does not support.
func (p *Plugin) SupportsMountOption() bool { return true }

// RequiresRemount reports whether the CSIDriver object has requiresRepublish, by the last read of
// the object. CanAttach and CanDeviceMount read the object.
func (p *Plugin) RequiresRemount(spec *volume.Spec) bool {
	s, err := sourceOf(spec)
	if err != nil {
		return false
	}
	policy, known := p.objects.last(s.driver)
	return known && policy.republish
}

// SupportsSELinuxContextMount reports whether the CSIDriver object has seLinuxMount, by the last
// read of the object. Before the first read the error is transient.
func (p *Plugin) SupportsSELinuxContextMount(spec *volume.Spec) (bool, error) {
	s, err := sourceOf(spec)
	if err != nil {
		return false, err
	}
	policy, known := p.objects.last(s.driver)
	if !known && p.config.Objects != nil {
		return false, volume.AsTransient(fmt.Errorf("CSIDriver %s has not been read yet", s.driver))
	}
	return policy.seLinuxMount, nil
}

// NewMounter validates the specification. The error is a [*field.Error]; that of a block volume
// wraps [volume.ErrNotSupported].
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	s, err := mountedSourceOf(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	if s.inline != nil {
		s.handle = inlineHandle(pod.UID, s.name)
	}
	v, err := p.podVolume(s.name, pod.UID)
	if err != nil {
		return nil, err
	}
	return &mounter{podVolume: v, source: s, pod: pod}, nil
}

// NewUnmounter validates the names. The volume's driver and handle are read from vol_data.json by
// TearDown.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	v, err := p.podVolume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return &unmounter{v}, nil
}

// NewUnmounterAt implements [volume.PathVolumePlugin].
func (p *Plugin) NewUnmounterAt(path string) (volume.Unmounter, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	t, err := p.targetAt(field.NewPath("path"), path)
	if err != nil {
		return nil, err
	}
	return &unmounter{podVolume{p, t}}, nil
}

// podVolume returns the volume's place in the pod after validating both names.
func (p *Plugin) podVolume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errNotInitialised
	}
	t, err := p.podTarget(podUID, name)
	return podVolume{p, t}, err
}

// CanDeviceMount reports whether the driver stages the volume: it has the capability
// STAGE_UNSTAGE_VOLUME, or has staged the volume when it had it, and the volume is persistent and mounted.
// The capabilities of a driver that is not registered are not known: the error is transient.
func (p *Plugin) CanDeviceMount(ctx context.Context, spec *volume.Spec) (bool, error) {
	s, err := sourceOf(spec)
	if err != nil {
		return false, err
	}
	if _, err := p.policyOf(ctx, s.driver); err != nil {
		return false, err
	}
	if s.inline != nil || spec.IsBlock() {
		return false, nil
	}
	_, caps, err := p.clientOf(ctx, s.driver)
	if err != nil || caps.stage {
		return err == nil, err
	}
	t, err := p.stagingTarget(s.driver, s.handle)
	if err == nil {
		_, err = p.readData(t) // staged when the driver had the capability
	}
	return err == nil, nil
}

package customplugin

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ConstructVolumeSpec recovers the share from the mount table; the plugin keeps no records.
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (volume.ReconstructedVolume, error) {
	spec, err := p.constructSpec(ctx, volumeName, mountPath)
	return volume.ReconstructedVolume{Spec: spec}, err
}

func (p *Plugin) constructSpec(ctx context.Context, volumeName, mountPath string) (*volume.Spec, error) {
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return nil, err
	}
	if p.mounts == nil {
		return nil, errors.New("customplugin: the plugin is not initialised")
	}
	at, view, err := p.mounts.At(ctx, mountPath)
	if err != nil {
		return nil, err
	}
	for origin := range view.Origins(at.Mountpoint) {
		if path.Dir(origin) == p.root {
			return specOf(volumeName, path.Base(origin), at.Flags&mount.ReadOnly != 0), nil
		}
	}
	return nil, volume.AsUncertain(fmt.Errorf("mount at %s: not a share", mountPath))
}

func specOf(volumeName, share string, readOnly bool) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{
		Name: volumeName,
		VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{
			Driver:           Driver,
			ReadOnly:         &readOnly,
			VolumeAttributes: map[string]string{Attribute: share},
		}},
	})
}

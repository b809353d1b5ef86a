package flexvolume

import (
	"context"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ConstructVolumeSpec recovers the volume that is mounted at mountPath, by the mount table: its driver, and whether it
// is read-only. The specification is that of a pod's own volume, as in a kubelet; its name is that of the volume by
// GetVolumeName. If nothing is mounted there the error wraps [volume.ErrNotMounted]. It does not call the driver.
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (_ volume.ReconstructedVolume, err error) {
	defer brief.Shorten(&err)
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return volume.ReconstructedVolume{}, err
	}
	if p.host == nil {
		return volume.ReconstructedVolume{}, errNotInitialised
	}
	at, _, err := p.mounts.At(ctx, mountPath)
	if err != nil {
		return volume.ReconstructedVolume{}, err
	}
	return volume.ReconstructedVolume{Spec: volume.NewSpecFromVolume(&v1.Volume{
		Name: volumeName,
		VolumeSource: v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{
			Driver: p.config.Driver, ReadOnly: at.Flags&mount.ReadOnly != 0,
		}},
	})}, nil
}

package emptydir

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ConstructVolumeSpec returns the volume from the record that SetUp made.
//
// A path that is not below the host's root is a [*field.Error]. If no volume is set up at the
// path the error wraps [volume.ErrNotMounted]; if there is a directory, or a mount, without a
// valid record, it wraps [volume.ErrUncertain]: the volume can be set up, and torn down.
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (volume.ReconstructedVolume, error) {
	spec, err := p.constructSpec(ctx, volumeName, mountPath)
	return volume.ReconstructedVolume{Spec: spec}, err
}

func (p *Plugin) constructSpec(ctx context.Context, volumeName, mountPath string) (*volume.Spec, error) {
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return nil, err
	}
	if p.host == nil {
		return nil, errNotInitialised
	}
	record, err := p.dirs.Find(ctx, mountPath)
	if err != nil {
		return nil, err
	}
	var source v1.EmptyDirVolumeSource
	if err := json.Unmarshal(record, &source); err != nil {
		return nil, volume.AsUncertain(fmt.Errorf("parse the record of %s: %w", mountPath, err))
	}
	return volume.NewSpecFromVolume(&v1.Volume{
		Name:         volumeName,
		VolumeSource: v1.VolumeSource{EmptyDir: &source},
	}), nil
}

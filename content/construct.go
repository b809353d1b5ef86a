package content

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ConstructVolumeSpec recovers the volume from the note that SetUp wrote.
//
// A path that is not below the host's root is a [*field.Error]. If the volume is not set up
// the error wraps [volume.ErrNotMounted]; if there is a directory, or a mount, without a
// readable note, [volume.ErrUncertain]: the volume can be set up, and torn down.
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
	v := &v1.Volume{Name: volumeName}
	if err := json.Unmarshal(record, &v.VolumeSource); err != nil || p.kind.source(v) == nil {
		return nil, volume.AsUncertain(fmt.Errorf("parse the record of %s: not a volume of plugin %s", mountPath, p.kind.plugin))
	}
	v.VolumeSource = p.kind.only(v)
	return volume.NewSpecFromVolume(v), nil
}

package content

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ConstructVolumeSpec recovers the volume from what was noted when it was set up.
//
// A path that is not below the host's root is a [*field.Error]. If nothing is up there
// the error wraps [volume.ErrNotMounted]; if there is a directory, or a mount, and no
// sound note about it, [volume.ErrUncertain]: it can be set up, and torn down.
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (*volume.Spec, error) {
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
		return nil, fmt.Errorf("%w: what is noted of %s is no volume of this kind", volume.ErrUncertain, mountPath)
	}
	v.VolumeSource = p.kind.only(v)
	return volume.NewSpecFromVolume(v), nil
}

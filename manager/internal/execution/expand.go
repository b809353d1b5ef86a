package execution

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/volume"
)

// expand grows the file system of the volume.
type expand struct{}

// ErrNothingToGrow: the plugin supports expansion, but not of this volume.
var ErrNothingToGrow = errors.New("nothing to grow")

func (expand) run(ctx context.Context, _ *Runner, j *Job, out *Outcome) error {
	err := growFileSystem(ctx, *j)
	if errors.Is(err, ErrNothingToGrow) {
		out.Silent = true
		return nil
	}
	return err
}

func (expand) markInFlight(*actual.Volume, Job) {}

func (expand) applyOutcome(v *actual.Volume, out Outcome) {
	if out.Err == nil {
		v.Size, v.SizeIsOld = out.Size, false
	}
}

// growFileSystem grows the file system to the size of its storage.
func growFileSystem(ctx context.Context, j Job) error {
	able, ok := volume.As[volume.NodeExpandableVolumePlugin](j.Plugin)
	if !ok {
		return fmt.Errorf("expand volume of plugin %s: %w", j.PluginName, volume.ErrNotSupported)
	}
	done, err := able.NodeExpand(ctx, j.resize())
	if errors.Is(err, volume.ErrNotSupported) {
		return ErrNothingToGrow
	}
	if err == nil && !done {
		err = volume.AsTransient(errors.New("the plugin cannot expand the volume yet"))
	}
	return err
}

// resize returns the request to the plugin.
func (j Job) resize() volume.NodeResizeOptions {
	o := volume.NodeResizeOptions{
		Spec: j.Spec, NewSize: *j.Size, DevicePath: j.DevicePath, DeviceStagePath: j.Before.StagePath,
		VolumePath: j.VolumePath,
	}
	if j.Grower != nil {
		o.Pod, o.Claim = j.Grower.Pod, j.Grower.Claim
	}
	if j.OldSize != nil {
		o.OldSize = *j.OldSize
	}
	if !j.Traits.Block && j.Traits.DeviceMountable {
		o.DeviceMountPath, o.DeviceStagePath = j.DeviceMountPath, j.DeviceMountPath
	}
	return o
}

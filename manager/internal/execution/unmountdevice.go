package execution

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/manager/internal/ability"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/volume"
)

// unmountDevice undoes mountDevice.
type unmountDevice struct{}

func (unmountDevice) run(ctx context.Context, r *Runner, j *Job, out *Outcome) error {
	out.path = j.DeviceMountPath
	if err := unmountForAll(ctx, *j); err != nil {
		return err
	}
	return r.checkReleased(ctx, *j)
}

func (unmountDevice) markInFlight(v *actual.Volume, _ Job) {
	if v.Device == actual.Present {
		v.Device = actual.Uncertain
	}
}

func (unmountDevice) applyOutcome(v *actual.Volume, out Outcome) {
	v.Device, v.Size, v.StagePath = actual.StateAfterDown(out.Err), nil, ""
	if out.Err == nil {
		v.DeviceMountPath, v.DeviceReadOnly, v.DeviceStaysReadOnly = "", false, false
	}
}

// unmountForAll unmounts the device mount, unless the plugin reports other mounts of it.
func unmountForAll(ctx context.Context, j Job) error {
	if j.Traits.Block {
		return tearDownDevice(ctx, j)
	}
	able, err := ability.DeviceMountable(j.Plugin)
	if err != nil {
		return err
	}
	refs, err := able.GetDeviceMountRefs(ctx, j.DeviceMountPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a missing path has no mounts
		return err
	}
	if len(refs) > 0 {
		return volume.AsTransient(fmt.Errorf("unmount device: also mounted at %s", input.Quote(refs[0])))
	}
	unmounter, err := able.NewDeviceUnmounter()
	if err != nil {
		return err
	}
	return unmounter.UnmountDevice(ctx, j.DeviceMountPath)
}

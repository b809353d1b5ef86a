package execution

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/manager/internal/ability"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/mountstate"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/volume"
)

// mountDevice mounts the volume once for all pods, or sets up its block device.
type mountDevice struct{}

func (mountDevice) run(ctx context.Context, r *Runner, j *Job, out *Outcome) (err error) {
	out.path = j.DeviceMountPath
	out.readOnly, err = mountForAll(ctx, *j, out)
	if (err == nil || out.readOnly) && !j.Traits.Block {
		var queryErr error
		out.mounted, out.Mount, queryErr = mountstate.Query(ctx, r.Mounter, j.DeviceMountPath) // without an ID a replaced mount is not detected
		out.mounted = out.mounted || queryErr != nil                                           // then the next check finds out
	}
	return err
}

func (mountDevice) markInFlight(v *actual.Volume, j Job) {
	if v.Device == actual.Absent {
		v.Device, v.LastPod, v.DeviceMountPath = actual.Uncertain, j.sharedUser(), j.DeviceMountPath
	}
}

func (mountDevice) applyOutcome(v *actual.Volume, out Outcome) {
	v.Device, v.DeviceStaysReadOnly = actual.StateAfterUp(v.Device, out.Err), errors.Is(out.Err, operation.ErrMountedForReaders)
	if v.DeviceStaysReadOnly {
		v.Device = actual.Present
	}
	if v.Device != actual.Absent {
		v.DeviceMountPath, v.LastPod = out.DeviceMountPath, out.sharedUser()
	}
	if out.Err == nil || v.DeviceStaysReadOnly {
		v.DeviceMount, v.DeviceReadOnly, v.StagePath = out.Mount, out.readOnly, out.stagePath
		v.NoDeviceMount = !out.mounted
	}
	if out.Err == nil || v.Device == actual.Uncertain {
		v.Spec = out.Spec // a reconstructed specification may lack the UID of the volume
	}
}

// mountForAll mounts the volume once for all pods, or sets up its block device. It reports
// whether the mount is read-only for pods that only read; if the mounting pod writes, the
// error is then operation.ErrMountedForReaders.
func mountForAll(ctx context.Context, j Job, out *Outcome) (readOnly bool, err error) {
	if j.Traits.Block {
		out.stagePath, err = setUpDevice(ctx, j)
		return false, err
	}
	able, err := ability.DeviceMountable(j.Plugin)
	if err != nil {
		return false, err
	}
	mounter, err := able.NewDeviceMounter()
	if err != nil {
		return false, err
	}
	mount := func(spec *volume.Spec) error {
		return mounter.MountDevice(ctx, spec, j.DeviceMountPath, volume.DeviceMounterArgs{
			DevicePath: j.DevicePath, FsGroup: j.Args.FsGroup, SELinuxLabel: j.Args.SELinuxLabel,
		})
	}
	err = mount(j.Spec)
	other := *j.Spec
	other.ReadOnly = !j.Spec.ReadOnly
	if !errors.Is(err, volume.ErrAlreadyMounted) || other.IsReadOnly() == j.Spec.IsReadOnly() || mount(&other) != nil {
		return err == nil && j.Spec.IsReadOnly(), err
	}
	if other.IsReadOnly() {
		return true, fmt.Errorf("%w: %w", operation.ErrMountedForReaders, err)
	}
	return false, nil
}

package execution

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/manager/internal/hostdisk"
	"github.com/volumekit/volumekit/util/subpath"
	"github.com/volumekit/volumekit/volume"
)

// checkReleased returns an error while the device of an unmounted volume is in use: detached
// from the node, the device would lose unwritten data.
func (r *Runner) checkReleased(ctx context.Context, j Job) error {
	if j.DevicePath == "" {
		return nil
	}
	use, err := r.Disk.DeviceUse(ctx, j.DevicePath)
	if err == nil && use == hostdisk.DeviceInUse {
		err = fmt.Errorf("release device %s: still in use", input.Quote(j.DevicePath))
	}
	if err != nil {
		return volume.AsTransient(err)
	}
	return nil
}

// subpathsToUnmount returns the subpath mounts to unmount before the tear-down. If the pod
// is gone, busy subpaths are detached; on a disk only if unmountDevice verifies the use of
// the device before it is released.
func (r *Runner) subpathsToUnmount(ctx context.Context, j Job) hostdisk.PodSubpaths {
	parts := hostdisk.PodSubpaths{Pod: j.Operation.Pod.Pod, Of: j.Subpaths}
	if j.PodGone {
		parts.Detach = &subpath.DetachOptions{Disks: j.Traits.DeviceMountable && r.isDeviceUseVerified(ctx, j)}
	}
	return parts
}

// isDeviceUseVerified reports whether unmountDevice fails while the device of the volume is in use:
// its plugin verifies the use, or checkReleased can.
func (r *Runner) isDeviceUseVerified(ctx context.Context, j Job) bool {
	if able, ok := volume.As[volume.DeviceUseVolumePlugin](j.Plugin); ok && able.VerifiesDeviceUse() {
		return true
	}
	if j.DevicePath == "" {
		return false
	}
	use, err := r.Disk.DeviceUse(ctx, j.DevicePath)
	return err == nil && use != hostdisk.DeviceUseUnknown
}

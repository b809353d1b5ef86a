package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ExpandVolumeDevice implements [volume.ExpandableVolumePlugin] by the call expandvolume. A driver without the
// operation grows the volume in NodeExpand. The node has work to do if the driver has the capability
// requiresFSResize; with neither the error wraps [volume.ErrNotSupported]. After a failure of the driver the error is
// uncertain.
func (p *Plugin) ExpandVolumeDevice(ctx context.Context, req volume.ExpandRequest) (_ volume.ExpandResult, err error) {
	defer brief.Shorten(&err)
	s, err := p.sourceOf(req.Spec)
	if err != nil {
		return volume.ExpandResult{}, err
	}
	sizes, err := sizesOf(req.NewSize, req.OldSize)
	if err != nil {
		return volume.ExpandResult{}, err
	}
	d, err := p.current(ctx)
	if err != nil {
		return volume.ExpandResult{}, err
	}
	args := append([]string{p.optionsOf(s), p.deviceMountPath(s)}, sizes...)
	answer, err := p.callVolume(ctx, d, s.name, call{operation: "expandvolume", args: args})
	result := volume.ExpandResult{Size: req.NewSize, NodeExpansionRequired: d.RequiresFSResize}
	switch {
	case errors.Is(err, errNotSupported) && !d.RequiresFSResize:
		return volume.ExpandResult{}, fmt.Errorf("grow a volume of driver %s, which has neither expandvolume nor requiresFSResize: %w", p.config.Driver, volume.ErrNotSupported)
	case errors.Is(err, errNotSupported), err == nil && answer.NewSize == 0: // the driver does not report a size
		return result, nil
	case err != nil:
		return volume.ExpandResult{}, withCallKind(err)
	case answer.NewSize < req.NewSize.Value():
		return volume.ExpandResult{}, volume.AsUncertain(fmt.Errorf("driver %s has grown the volume to %d bytes, requested %d", p.config.Driver, answer.NewSize, req.NewSize.Value()))
	}
	result.Size = *resource.NewQuantity(answer.NewSize, resource.BinarySI)
	return result, nil
}

// NodeExpand implements [volume.NodeExpandableVolumePlugin] by the call expandfs. For a driver without the operation
// it grows the file system of the device mount to the size of the device; false says that the device is smaller than
// requested. If the driver has not the capability
// requiresFSResize, or has neither the operation nor a device mount, the error wraps [volume.ErrNotSupported]. After a failure of the
// driver the error is uncertain.
func (p *Plugin) NodeExpand(ctx context.Context, req volume.NodeResizeOptions) (_ bool, err error) {
	defer brief.Shorten(&err)
	s, err := p.sourceOf(req.Spec)
	if err != nil {
		return false, err
	}
	sizes, err := sizesOf(req.NewSize, req.OldSize)
	if err != nil {
		return false, err
	}
	if err := p.checkPaths(req); err != nil {
		return false, err
	}
	d, err := p.current(ctx)
	switch {
	case err != nil:
		return false, err
	case !d.RequiresFSResize:
		return false, fmt.Errorf("grow a volume of driver %s, which has no requiresFSResize: %w", p.config.Driver, volume.ErrNotSupported)
	}
	args := append([]string{p.optionsOf(s), req.DevicePath, req.DeviceMountPath}, sizes...)
	_, err = p.callVolume(ctx, d, s.name, call{operation: "expandfs", args: args})
	switch {
	case errors.Is(err, errNotSupported):
		return p.grow(ctx, s, req)
	case err != nil:
		return false, withCallKind(err)
	}
	return true, nil
}

// checkPaths validates the paths for expandfs.
func (p *Plugin) checkPaths(req volume.NodeResizeOptions) error {
	if err := checkDevice(field.NewPath("req", "devicePath"), req.DevicePath); err != nil || req.DeviceMountPath == "" || p.host == nil {
		return err
	}
	_, err := p.mounts.Below(field.NewPath("req", "deviceMountPath"), req.DeviceMountPath)
	return err
}

// grow grows the file system of the device mount.
func (p *Plugin) grow(ctx context.Context, s source, req volume.NodeResizeOptions) (bool, error) {
	if req.DevicePath == "" || req.DeviceMountPath == "" {
		return false, fmt.Errorf("grow volume %s without a device, by driver %s without expandfs: %w", s.name, p.config.Driver, volume.ErrNotSupported)
	}
	sizes, err := p.disks.Grow(ctx, disk.GrowRequest{Device: req.DevicePath, Target: req.DeviceMountPath})
	switch {
	case errors.Is(err, mount.ErrUncertain):
		return false, volume.AsUncertain(err)
	case err != nil:
		return false, util.Transient(err)
	}
	return sizes.Device >= req.NewSize.Value(), nil
}

// sizesOf returns the arguments with the new and the old size in bytes.
func sizesOf(wanted, old resource.Quantity) ([]string, error) {
	var sizes []string
	for _, q := range []struct {
		name  string
		value resource.Quantity
	}{{"newSize", wanted}, {"oldSize", old}} {
		if err := quantity.CheckOf(q.name, &q.value); err != nil {
			return nil, err
		}
		sizes = append(sizes, strconv.FormatInt(q.value.Value(), 10))
	}
	return sizes, nil
}

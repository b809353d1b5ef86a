package driver

import (
	"context"
	"errors"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ControllerExpandVolume implements the controller service by the plugin's ExpandVolumeDevice.
func (d *driver) ControllerExpandVolume(ctx context.Context, req *csipb.ControllerExpandVolumeRequest) (*csipb.ControllerExpandVolumeResponse, error) {
	if d.expander == nil {
		return d.UnimplementedControllerServer.ControllerExpandVolume(ctx, req)
	}
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if req.GetCapacityRange() == nil {
		return nil, field.Required(field.NewPath("capacityRange"), "the request needs it")
	}
	required, limit, err := requireRange(req.GetCapacityRange(), 0)
	if err != nil {
		return nil, err
	}
	u, err := d.optionalUsage(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	var resp *csipb.ControllerExpandVolumeResponse
	err = d.exclusively(ctx, "expand", id, func() (err error) {
		resp, err = d.expand(ctx, id, u, required, limit)
		return err
	})
	return resp, err
}

// optionalUsage returns the usage of a capability that a request need not have.
func (d *driver) optionalUsage(c *csipb.VolumeCapability) (*usage, error) {
	if c == nil {
		return nil, nil
	}
	u, err := d.requireUsage(field.NewPath("volumeCapability"), c)
	return &u, err
}

// expand grows the storage, unless the volume has the size.
func (d *driver) expand(ctx context.Context, id volumeID, u *usage, required, limit int64) (*csipb.ControllerExpandVolumeResponse, error) {
	v, err := d.describe(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	rec, err := d.createdVolume(id)
	if err != nil {
		return nil, err
	}
	size := int64(0) // not known
	if rec != nil {
		size = rec.Capacity
	}
	switch {
	case limit > 0 && size > limit:
		return nil, codedf(codes.OutOfRange, "the volume has %d bytes, and the limit is %d", size, limit)
	case size > 0 && required <= size: // a repeated call, or one after a larger expansion
		return &csipb.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: d.nodeExpand != nil}, nil
	case required == 0:
		return nil, field.Required(field.NewPath("capacityRange", "requiredBytes"), "the capacity of the volume is not known")
	}
	spec, err := v.expanding(rec, u)
	if err != nil {
		return nil, err
	}
	resp, err := d.growStorage(ctx, spec, size, required)
	if err != nil {
		return nil, err
	}
	if rec != nil && rec.Capacity != resp.CapacityBytes {
		rec.Capacity = resp.CapacityBytes
		if err := d.volumes.write(id.name, *rec); err != nil {
			return nil, volume.AsUncertain(err)
		}
	}
	return resp, nil
}

// expanding returns a volume that is about to grow, with the requested usage, or else that of its record.
func (v described) expanding(rec *volumeRecord, u *usage) (*volume.Spec, error) {
	pv, err := v.persistentVolume()
	if err != nil {
		return nil, err
	}
	if rec != nil {
		pv.Spec.VolumeMode, pv.Spec.AccessModes, pv.Spec.Capacity = rec.Volume.Spec.VolumeMode, rec.Volume.Spec.AccessModes, rec.Volume.Spec.Capacity
	}
	if u != nil {
		u.apply(pv)
	}
	return volume.NewSpecFromPersistentVolume(pv, false), nil
}

// growStorage grows the storage by the plugin.
func (d *driver) growStorage(ctx context.Context, spec *volume.Spec, size, required int64) (*csipb.ControllerExpandVolumeResponse, error) {
	result, err := d.expander.ExpandVolumeDevice(ctx, volume.ExpandRequest{
		Spec: spec, NewSize: *resource.NewQuantity(required, resource.BinarySI), OldSize: *resource.NewQuantity(size, resource.BinarySI),
	})
	if err != nil {
		return nil, ofExpansion(err)
	}
	bytes, err := quantity.Bytes(&result.Size)
	if err != nil || bytes < required {
		return nil, volume.AsUncertain(fmt.Errorf("the plugin reports a size of %s", quantity.Text(&result.Size)))
	}
	return &csipb.ControllerExpandVolumeResponse{CapacityBytes: bytes, NodeExpansionRequired: result.NodeExpansionRequired}, nil
}

// ofExpansion gives an infeasible expansion its code.
func ofExpansion(err error) error {
	if errors.Is(err, volume.ErrInfeasible) {
		return coded(codes.OutOfRange, err)
	}
	return err
}

// NodeExpandVolume implements the node service by the plugin's NodeExpand.
func (d *driver) NodeExpandVolume(ctx context.Context, req *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	if d.nodeExpand == nil {
		return d.UnimplementedNodeServer.NodeExpandVolume(ctx, req)
	}
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := requireText(field.NewPath("volumePath"), req.GetVolumePath(), longestPath); err != nil {
		return nil, err
	}
	required, _, err := requireRange(req.GetCapacityRange(), 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.optionalUsage(req.GetVolumeCapability()); err != nil {
		return nil, err
	}
	resp := &csipb.NodeExpandVolumeResponse{}
	return resp, d.exclusively(ctx, "grow", id, func() (err error) {
		if resp.CapacityBytes, err = d.sizeOnNode(id, required); err != nil {
			return err
		}
		done, err := d.growOnNode(ctx, id, req.GetVolumePath(), resp.CapacityBytes)
		switch {
		case errors.Is(err, volume.ErrNotSupported): // the node has no work to do
			return nil
		case err == nil && !done:
			err = codedf(codes.FailedPrecondition, "the volume cannot grow in its present state")
		}
		return ofExpansion(err)
	})
}

// sizeOnNode returns the requested size, or without one the capacity of a created volume.
func (d *driver) sizeOnNode(id volumeID, required int64) (int64, error) {
	if required > 0 || !d.controls() {
		return required, nil
	}
	created, err := d.createdVolume(id)
	if created == nil {
		return 0, err
	}
	return created.Capacity, nil
}

// growOnNode grows the file system of a volume that is staged or published at a path.
func (d *driver) growOnNode(ctx context.Context, id volumeID, at string, size int64) (done bool, err error) {
	rec, used, err := d.usedAt(id, at)
	if err != nil {
		return false, err
	}
	spec, err := described{id, rec.Source}.spec(used.usage())
	if err != nil {
		return false, err
	}
	opts := volume.NodeResizeOptions{Spec: spec, NewSize: *resource.NewQuantity(size, resource.BinarySI)}
	if used.published {
		opts.VolumePath, opts.Pod = used.path, podAt(used.path)
	}
	if s := rec.Staged; s != nil {
		opts.DevicePath, opts.DeviceMountPath, opts.DeviceStagePath = s.Device, s.DeviceMount, s.DeviceMount
		if spec.IsBlock() {
			opts.DeviceStagePath = s.BlockStage
		}
	}
	return d.nodeExpand.NodeExpand(ctx, opts)
}

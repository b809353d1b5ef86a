package driver

import (
	"context"
	"errors"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodePublishVolume implements the node service.
func (d *driver) NodePublishVolume(ctx context.Context, req *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	target, err := requirePath(field.NewPath("targetPath"), req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	u, err := d.requireUsage(field.NewPath("volumeCapability"), req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	unlock, err := d.inFlight.lock(ctx, id.name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := d.describe(ctx, id, req.GetVolumeContext())
	if err == nil {
		p := targetRecord{Path: target, Usage: u.record(), ReadOnly: req.GetReadonly()}
		err = d.publish(ctx, v, u, p, req)
	}
	if err != nil {
		return nil, fmt.Errorf("publish volume %s: %w", input.Quote(id.text), err)
	}
	return &csipb.NodePublishVolumeResponse{}, nil
}

// publish mounts or maps the volume at a path, and records it before.
func (d *driver) publish(ctx context.Context, v described, u usage, p targetRecord, req *csipb.NodePublishVolumeRequest) error {
	if _, err := d.paths.NewUnmounterAt(p.Path); err != nil { // a path outside of the directories for volumes
		return err
	}
	if err := d.own.check(p.Path); err != nil {
		return err
	}
	rec, err := d.nodeRecordOf(v)
	if err == nil {
		err = d.checkStaged(rec, req.GetStagingTargetPath())
	}
	if err == nil && rec.checkPublished(p) != nil {
		err = d.forgetRemoved(ctx, v.id, rec, p.Path)
	}
	if err == nil {
		err = rec.checkPublished(p)
	}
	if err != nil {
		return err
	}
	paths, err := d.devicePaths(ctx, v, u, rec, req)
	if err != nil {
		return err
	}
	spec, err := v.spec(u)
	if err != nil {
		return err
	}
	if holder := d.targets.reserve(p.Path, v.id.text); holder != v.id.text {
		return codedf(codes.AlreadyExists, "volume %s is published at %s", input.Quote(holder), input.Quote(p.Path))
	}
	again := rec.at(p.Path) != nil
	if !again {
		rec.Published = append(rec.Published, p)
		if err := d.saveNode(v.id.text, rec); err != nil {
			d.targets.release(p.Path, v.id.text)
			return err
		}
	}
	if u.block {
		err = d.publishDevice(ctx, spec, p, paths)
	} else {
		err = d.publishDirectory(ctx, spec, p, paths, again)
	}
	if err != nil && !again && volume.KindOf(err) != volume.Uncertain {
		rec.Published = rec.without(p.Path)
		d.targets.release(p.Path, v.id.text)
		return errors.Join(err, d.saveNode(v.id.text, rec))
	}
	return err
}

// devicePaths returns the paths of the device: of the staging, or of a volume that is not staged.
func (d *driver) devicePaths(ctx context.Context, v described, u usage, rec *nodeRecord, req *csipb.NodePublishVolumeRequest) (s stageRecord, err error) {
	if rec.Staged != nil {
		return *rec.Staged, nil
	}
	s.Device, err = d.waitForAttach(ctx, v, u, req.GetPublishContext(), req.GetTargetPath())
	return s, err
}

// checkStaged requires the staging of a driver that stages volumes.
func (d *driver) checkStaged(rec *nodeRecord, staging string) error {
	if !d.stages() {
		return nil
	}
	if staging == "" {
		return coded(codes.FailedPrecondition, field.Required(field.NewPath("stagingTargetPath"), "the driver declares STAGE_UNSTAGE_VOLUME"))
	}
	clean, err := requirePath(field.NewPath("stagingTargetPath"), staging)
	if err != nil {
		return err
	}
	if rec.Staged == nil || rec.Staged.Path != clean {
		return codedf(codes.FailedPrecondition, "the volume is not staged at %s", input.Quote(staging))
	}
	return nil
}

// checkPublished compares a publication with those of the volume, as the specification's table for a
// driver with SINGLE_NODE_MULTI_WRITER requires.
func (r *nodeRecord) checkPublished(p targetRecord) error {
	if have := r.at(p.Path); have != nil {
		if have.ReadOnly != p.ReadOnly || !have.Usage.equals(p.Usage) {
			return codedf(codes.AlreadyExists, "published at %s with other arguments", input.Quote(p.Path))
		}
		return nil
	}
	if r.Staged != nil && r.Staged.Usage.Block != p.Usage.Block {
		return codedf(codes.FailedPrecondition, "staged with another access type")
	}
	for _, other := range r.Published {
		if other.Usage.Block != p.Usage.Block || !isShared(other.Usage.Mode) || !isShared(p.Usage.Mode) {
			return codedf(codes.FailedPrecondition, "published at %s, and the access mode allows one path", input.Quote(other.Path))
		}
	}
	return nil
}

// publishDirectory sets the volume up at the target path. Again: it was, or may be.
func (d *driver) publishDirectory(ctx context.Context, spec *volume.Spec, p targetRecord, s stageRecord, again bool) error {
	mounter, err := d.config.Plugin.NewMounter(spec, podAt(p.Path))
	if err != nil {
		return err
	}
	return mounter.SetUpAt(ctx, p.Path, volume.MounterArgs{
		ReadOnly: p.ReadOnly, DevicePath: s.Device, DeviceMountPath: s.DeviceMount, IsRemount: again,
	})
}

// NodeUnpublishVolume implements the node service. It also unmounts a volume of the plugin without a record:
// a pod could not end otherwise after the records were lost.
func (d *driver) NodeUnpublishVolume(ctx context.Context, req *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	target, err := requirePath(field.NewPath("targetPath"), req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	unlock, err := d.inFlight.lock(ctx, id.name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := d.unpublish(ctx, id, target); err != nil {
		return nil, fmt.Errorf("unpublish volume %s: %w", input.Quote(id.text), err)
	}
	return &csipb.NodeUnpublishVolumeResponse{}, nil
}

// unpublish undoes publish. The path stays reserved until the volume is unmounted.
func (d *driver) unpublish(ctx context.Context, id volumeID, target string) error {
	if _, err := d.paths.NewUnmounterAt(target); err != nil { // a path outside of the directories for volumes
		return err
	}
	if holder := d.targets.reserve(target, id.text); holder != id.text {
		return codedf(codes.NotFound, "%s has volume %s", input.Quote(target), input.Quote(holder))
	}
	rec, err := d.onNode.read(id.text)
	if rec == nil || rec.at(target) == nil {
		defer d.targets.release(target, id.text)
		return errors.Join(d.unpublishUnrecorded(ctx, id, target), err)
	}
	if err := d.unmountTarget(ctx, id, *rec.at(target)); err != nil {
		return err
	}
	rec.Published = rec.without(target)
	if err := d.saveNode(id.text, rec); err != nil {
		return err
	}
	d.targets.release(target, id.text)
	return nil
}

// unmountTarget unmounts or unmaps a publication.
func (d *driver) unmountTarget(ctx context.Context, id volumeID, p targetRecord) error {
	if p.Usage.Block {
		return d.unpublishDevice(ctx, id, p.Path)
	}
	unmounter, err := d.paths.NewUnmounterAt(p.Path)
	if err != nil {
		return err
	}
	return unmounter.TearDown(ctx)
}

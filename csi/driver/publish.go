package driver

import (
	"context"
	"errors"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodePublishVolume implements the node service.
func (d *driver) NodePublishVolume(ctx context.Context, req *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	id, target, err := requireUse(req.GetVolumeId(), "targetPath", req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	u, err := d.requireUsage(field.NewPath("volumeCapability"), req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	p := targetRecord{Path: target, Usage: u.record(), Group: u.group, ReadOnly: req.GetReadonly(), Boot: d.boot}
	return &csipb.NodePublishVolumeResponse{}, d.exclusively(ctx, "publish", id, func() error {
		v, err := d.describe(ctx, id, req.GetVolumeContext())
		if err != nil {
			return err
		}
		return d.publish(ctx, v, u, p, req)
	})
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
	if err != nil {
		return err
	}
	if err := d.checkStaged(rec, req.GetStagingTargetPath()); err != nil {
		return err
	}
	if err := d.checkPublished(ctx, v.id, rec, p); err != nil {
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
	again, err := d.recordTarget(v.id, rec, p)
	if err != nil {
		return err
	}
	if u.block {
		err = d.publishDevice(ctx, spec, p, paths)
	} else {
		err = d.publishDirectory(ctx, spec, p, paths, again)
	}
	if err != nil && !again && volume.KindOf(err) != volume.Uncertain {
		return errors.Join(err, d.forgetTarget(v.id, rec, p.Path))
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
	switch {
	case err != nil:
		return err
	case rec.Staged == nil || rec.Staged.Path != clean:
		return codedf(codes.FailedPrecondition, "the volume is not staged at %s", input.Quote(staging))
	case bootid.IsEarlier(rec.Staged.Boot, d.boot):
		return codedf(codes.FailedPrecondition, "the volume was staged at %s before the system was started", input.Quote(staging))
	}
	return nil
}

// checkPublished compares a publication with those of the volume. It forgets others that do not exist any
// more.
func (d *driver) checkPublished(ctx context.Context, id volumeID, rec *nodeRecord, p targetRecord) error {
	if rec.checkPublished(p) == nil {
		return nil
	}
	if err := d.forgetRemoved(ctx, id, rec, p.Path); err != nil {
		return err
	}
	return rec.checkPublished(p)
}

// checkPublished compares a publication with those of the volume, as the specification's table for a
// driver with SINGLE_NODE_MULTI_WRITER requires.
func (r *nodeRecord) checkPublished(p targetRecord) error {
	if have := r.at(p.Path); have != nil && !bootid.IsEarlier(have.Boot, p.Boot) {
		if have.ReadOnly != p.ReadOnly || !have.Usage.equals(p.Usage) || !equalGroups(have.Group, p.Group) {
			return codedf(codes.AlreadyExists, "published at %s with other arguments", input.Quote(p.Path))
		}
		return nil
	}
	if r.Staged != nil && r.Staged.Usage.Block != p.Usage.Block {
		return codedf(codes.FailedPrecondition, "staged with another access type")
	}
	for _, other := range r.without(p.Path) {
		if other.Usage.Block != p.Usage.Block || !isShared(other.Usage.Mode) || !isShared(p.Usage.Mode) {
			return codedf(codes.FailedPrecondition, "published at %s, and the access mode allows one path", input.Quote(other.Path))
		}
	}
	return nil
}

func equalGroups(a, b *int64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// recordTarget records a publication, and reserves its path. Again: it was recorded since the system was
// started.
func (d *driver) recordTarget(id volumeID, rec *nodeRecord, p targetRecord) (again bool, err error) {
	if holder := d.targets.reserve(p.Path, id.text); holder != id.text {
		return false, codedf(codes.AlreadyExists, "volume %s is published at %s", input.Quote(holder), input.Quote(p.Path))
	}
	if have := rec.at(p.Path); have != nil && !bootid.IsEarlier(have.Boot, p.Boot) {
		return true, nil
	}
	rec.Published = append(rec.without(p.Path), p)
	err = d.saveNode(id.text, rec)
	if err != nil {
		d.targets.release(p.Path, id.text)
	}
	return false, err
}

// forgetTarget removes a publication that has been undone from the record, and releases its path.
func (d *driver) forgetTarget(id volumeID, rec *nodeRecord, target string) error {
	rec.Published = rec.without(target)
	if err := d.saveNode(id.text, rec); err != nil {
		return err
	}
	d.targets.release(target, id.text)
	return nil
}

// publishDirectory sets the volume up at the target path. Again: it was, or may be.
func (d *driver) publishDirectory(ctx context.Context, spec *volume.Spec, p targetRecord, s stageRecord, again bool) error {
	mounter, err := d.config.Plugin.NewMounter(spec, podAt(p.Path))
	if err != nil {
		return err
	}
	if attributes := mounter.GetAttributes(); p.Group != nil && !attributes.Managed && !attributes.ReadOnly {
		return field.Forbidden(field.NewPath("volumeCapability", "volumeMountGroup"), "the plugin does not change the group of the volume")
	}
	return mounter.SetUpAt(ctx, p.Path, volume.MounterArgs{
		ReadOnly: p.ReadOnly, FsGroup: p.Group, DevicePath: s.Device, DeviceMountPath: s.DeviceMount, IsRemount: again,
	})
}

// NodeUnpublishVolume implements the node service. It also unmounts a volume of the plugin without a record:
// a pod could not end otherwise after the records were lost.
func (d *driver) NodeUnpublishVolume(ctx context.Context, req *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	id, target, err := requireUse(req.GetVolumeId(), "targetPath", req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	return &csipb.NodeUnpublishVolumeResponse{}, d.exclusively(ctx, "unpublish", id, func() error { return d.unpublish(ctx, id, target) })
}

// unpublish undoes publish. The path stays reserved until the volume is unmounted.
func (d *driver) unpublish(ctx context.Context, id volumeID, target string) error {
	if _, err := d.paths.NewUnmounterAt(target); err != nil { // a path outside of the directories for volumes
		return err
	}
	rec, err := d.onNode.read(id.text)
	if rec != nil && rec.at(target) != nil {
		return d.undoTarget(ctx, id, rec, *rec.at(target))
	}
	if holder := d.targets.reserve(target, id.text); holder != id.text {
		return codedf(codes.NotFound, "%s has volume %s", input.Quote(target), input.Quote(holder))
	}
	defer d.targets.release(target, id.text)
	return errors.Join(d.unpublishUnrecorded(ctx, id, target), err)
}

// undoTarget unmounts or unmaps a recorded publication, and removes it from the record. If another volume has
// been published at the path since the start of the system, that one stays.
func (d *driver) undoTarget(ctx context.Context, id volumeID, rec *nodeRecord, p targetRecord) error {
	var err error
	switch holder := d.targets.reserve(p.Path, id.text); {
	case holder == id.text:
		err = d.unmountTarget(ctx, id, p)
	case p.Usage.Block:
		err = d.unmapDevice(ctx, id.name, p.Path)
	}
	if err != nil {
		return err
	}
	return d.forgetTarget(id, rec, p.Path)
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

package driver

import (
	"context"
	"errors"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeStageVolume implements the node service. The plugin mounts the volume in a directory of its own:
// the staging directory of the caller stays empty.
func (d *driver) NodeStageVolume(ctx context.Context, req *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	if !d.stages() {
		return d.UnimplementedNodeServer.NodeStageVolume(ctx, req)
	}
	id, staging, err := requireUse(req.GetVolumeId(), "stagingTargetPath", req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	u, err := d.requireUsage(field.NewPath("volumeCapability"), req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	return &csipb.NodeStageVolumeResponse{}, d.exclusively(ctx, "stage", id, func() error {
		v, err := d.describe(ctx, id, req.GetVolumeContext())
		if err != nil {
			return err
		}
		return d.stage(ctx, v, u, staging, req.GetPublishContext())
	})
}

// stage mounts or maps the volume once for the node, and records it before.
func (d *driver) stage(ctx context.Context, v described, u usage, staging string, publishContext map[string]string) error {
	rec, err := d.nodeRecordOf(v)
	if err != nil {
		return err
	}
	if err := d.checkRestaged(ctx, v.id, rec, staging, u); err != nil {
		return err
	}
	spec, err := v.spec(u)
	if err != nil {
		return err
	}
	s := stageRecord{Path: staging, Usage: u.record(), Boot: d.boot}
	if s.Device, err = d.waitForAttach(ctx, v, u, publishContext, staging); err != nil {
		return err
	}
	if s.DeviceMount, err = d.deviceMount(ctx, spec); err != nil {
		return err
	}
	again := rec.Staged != nil && !bootid.IsEarlier(rec.Staged.Boot, d.boot)
	if again {
		s.BlockStage = rec.Staged.BlockStage
	}
	if !again || *rec.Staged != s {
		rec.Staged = &s
		if err := d.saveNode(v.id.text, rec); err != nil {
			return err
		}
	}
	err = d.mountOnce(ctx, spec, rec.Staged, u.group)
	switch {
	case err != nil && !again && volume.KindOf(err) != volume.Uncertain:
		rec.Staged = nil
		return errors.Join(err, d.saveNode(v.id.text, rec))
	case err == nil && u.block:
		return d.saveNode(v.id.text, rec) // the result of SetUpDevice
	}
	return err
}

// checkRestaged compares a staging with the recorded one, which it undoes if that is of an earlier start of
// the system and another one. Groups are not compared: the callers of two pods may stage one volume.
func (d *driver) checkRestaged(ctx context.Context, id volumeID, rec *nodeRecord, staging string, u usage) error {
	have := rec.Staged
	switch {
	case have == nil, have.Path == staging && have.Usage.equals(u.record()):
		return nil
	case bootid.IsEarlier(have.Boot, d.boot):
		return d.unstage(ctx, id, rec)
	case have.Path != staging:
		return codedf(codes.FailedPrecondition, "staged at %s", input.Quote(have.Path))
	}
	return codedf(codes.AlreadyExists, "staged with another capability")
}

// nodeRecordOf returns the record of a volume, or a new one. A volume whose record has another source
// is refused.
func (d *driver) nodeRecordOf(v described) (*nodeRecord, error) {
	rec, err := d.onNode.read(v.id.text)
	switch {
	case err != nil:
		return nil, err
	case rec == nil:
		return &nodeRecord{Source: v.source}, nil
	case rec.Source != v.source:
		return nil, codedf(codes.FailedPrecondition, "the volume is used on this node with another volume context")
	}
	return rec, nil
}

// deviceMount returns the plugin's directory for the mount of the volume, or "" if the plugin does not
// mount it once for the node.
func (d *driver) deviceMount(ctx context.Context, spec *volume.Spec) (string, error) {
	if d.devices == nil || spec.IsBlock() {
		return "", nil
	}
	if able, err := d.devices.CanDeviceMount(ctx, spec); err != nil || !able {
		return "", err
	}
	mounter, err := d.devices.NewDeviceMounter()
	if err != nil {
		return "", err
	}
	return mounter.GetDeviceMountPath(spec)
}

// mountOnce mounts the volume for the node, or sets up the raw device. It does nothing for a volume that
// needs neither.
func (d *driver) mountOnce(ctx context.Context, spec *volume.Spec, s *stageRecord, group *int64) error {
	if spec.IsBlock() {
		return d.setUpDevice(ctx, spec, s)
	}
	if s.DeviceMount == "" {
		_, err := d.config.Plugin.NewMounter(spec, podAt(s.Path)) // refuses an invalid volume
		return err
	}
	mounter, err := d.devices.NewDeviceMounter()
	if err != nil {
		return err
	}
	return mounter.MountDevice(ctx, spec, s.DeviceMount, volume.DeviceMounterArgs{DevicePath: s.Device, FsGroup: group})
}

// NodeUnstageVolume implements the node service.
func (d *driver) NodeUnstageVolume(ctx context.Context, req *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	if !d.stages() {
		return d.UnimplementedNodeServer.NodeUnstageVolume(ctx, req)
	}
	id, staging, err := requireUse(req.GetVolumeId(), "stagingTargetPath", req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	return &csipb.NodeUnstageVolumeResponse{}, d.exclusively(ctx, "unstage", id, func() error {
		rec, err := d.onNode.read(id.text)
		if err != nil || rec == nil || rec.Staged == nil || rec.Staged.Path != staging {
			return err
		}
		return d.unstage(ctx, id, rec)
	})
}

// unstage unmounts the volume that no path uses.
func (d *driver) unstage(ctx context.Context, id volumeID, rec *nodeRecord) error {
	if err := d.forgetRemoved(ctx, id, rec, ""); err != nil {
		return err
	}
	if len(rec.Published) > 0 {
		return codedf(codes.FailedPrecondition, "published at %s", input.Quote(rec.Published[0].Path))
	}
	if err := d.unmountOnce(ctx, id, rec); err != nil {
		return err
	}
	rec.Staged = nil
	return d.saveNode(id.text, rec)
}

// forgetRemoved removes publications, but that at one path, that do not exist any more: those of an earlier
// start of the system, and those whose paths the caller has removed with the pod's directory. TearDown waits
// for the end of an uncertain SetUp.
func (d *driver) forgetRemoved(ctx context.Context, id volumeID, rec *nodeRecord, but string) error {
	for _, p := range slices.Clone(rec.Published) {
		if p.Path == but || !d.isGone(p) {
			continue
		}
		if err := d.undoTarget(ctx, id, rec, p); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) isGone(p targetRecord) bool {
	return bootid.IsEarlier(p.Boot, d.boot) || !p.Usage.Block && isRemoved(p.Path)
}

// forgetEarlier undoes all uses of a volume that do not exist any more.
func (d *driver) forgetEarlier(ctx context.Context, id volumeID, rec *nodeRecord) error {
	if err := d.forgetRemoved(ctx, id, rec, ""); err != nil {
		return err
	}
	if rec.Staged == nil || len(rec.Published) > 0 || !bootid.IsEarlier(rec.Staged.Boot, d.boot) {
		return nil
	}
	return d.unstage(ctx, id, rec)
}

// unmountOnce undoes mountOnce.
func (d *driver) unmountOnce(ctx context.Context, id volumeID, rec *nodeRecord) error {
	if rec.Staged.Usage.Block {
		return d.tearDownDevice(ctx, id, rec)
	}
	if rec.Staged.DeviceMount == "" {
		return nil
	}
	unmounter, err := d.devices.NewDeviceUnmounter()
	if err != nil {
		return err
	}
	return unmounter.UnmountDevice(ctx, rec.Staged.DeviceMount)
}

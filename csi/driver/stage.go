package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
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
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	staging, err := requirePath(field.NewPath("stagingTargetPath"), req.GetStagingTargetPath())
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
		err = d.stage(ctx, v, u, staging, req.GetPublishContext())
	}
	if err != nil {
		return nil, fmt.Errorf("stage volume %s: %w", input.Quote(id.text), err)
	}
	return &csipb.NodeStageVolumeResponse{}, nil
}

// stage mounts or maps the volume once for the node, and records it before.
func (d *driver) stage(ctx context.Context, v described, u usage, staging string, publishContext map[string]string) error {
	rec, err := d.nodeRecordOf(v)
	if err != nil {
		return err
	}
	switch s := rec.Staged; {
	case s != nil && s.Path != staging:
		return codedf(codes.FailedPrecondition, "staged at %s", input.Quote(s.Path))
	case s != nil && !s.Usage.equals(u.record()):
		return codedf(codes.AlreadyExists, "staged with another capability")
	}
	device, err := d.waitForAttach(ctx, v, u, publishContext, staging)
	if err != nil {
		return err
	}
	spec, err := v.spec(u)
	if err != nil {
		return err
	}
	again := rec.Staged != nil
	if !again {
		rec.Staged = &stageRecord{Path: staging, Usage: u.record()}
	}
	before := *rec.Staged
	rec.Staged.Device = device
	if rec.Staged.DeviceMount, err = d.deviceMount(ctx, spec); err != nil {
		return err
	}
	if !again || before != *rec.Staged {
		if err := d.saveNode(v.id.text, rec); err != nil {
			return err
		}
	}
	err = d.mountOnce(ctx, spec, rec.Staged)
	if err != nil && !again && volume.KindOf(err) != volume.Uncertain {
		rec.Staged = nil
		return errors.Join(err, d.saveNode(v.id.text, rec))
	}
	if err == nil && u.block {
		err = d.saveNode(v.id.text, rec) // the result of SetUpDevice
	}
	return err
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
func (d *driver) mountOnce(ctx context.Context, spec *volume.Spec, s *stageRecord) error {
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
	return mounter.MountDevice(ctx, spec, s.DeviceMount, volume.DeviceMounterArgs{DevicePath: s.Device})
}

// NodeUnstageVolume implements the node service.
func (d *driver) NodeUnstageVolume(ctx context.Context, req *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	if !d.stages() {
		return d.UnimplementedNodeServer.NodeUnstageVolume(ctx, req)
	}
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	staging, err := requirePath(field.NewPath("stagingTargetPath"), req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	unlock, err := d.inFlight.lock(ctx, id.name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	rec, err := d.onNode.read(id.text)
	if err == nil && rec != nil && rec.Staged != nil && rec.Staged.Path == staging {
		err = d.unstage(ctx, id, rec)
	}
	if err != nil {
		return nil, fmt.Errorf("unstage volume %s: %w", input.Quote(id.text), err)
	}
	return &csipb.NodeUnstageVolumeResponse{}, nil
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

// forgetRemoved removes publications, but that at one path, whose paths do not exist any more: the caller has
// removed them with the pod's directory. TearDown waits for the end of an uncertain SetUp.
func (d *driver) forgetRemoved(ctx context.Context, id volumeID, rec *nodeRecord, but string) error {
	for _, p := range slices.Clone(rec.Published) {
		if p.Usage.Block || p.Path == but || !isRemoved(p.Path) {
			continue
		}
		if err := d.unmountTarget(ctx, id, p); err != nil {
			return err
		}
		rec.Published = rec.without(p.Path)
		if err := d.saveNode(id.text, rec); err != nil {
			return err
		}
		d.targets.release(p.Path, id.text)
	}
	return nil
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

package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DeviceKey is the entry of a publish context with the result of Attach.
const DeviceKey = "volumekit.io/device"

// ControllerPublishVolume implements the controller service by the plugin's Attacher.
func (d *driver) ControllerPublishVolume(ctx context.Context, req *csipb.ControllerPublishVolumeRequest) (*csipb.ControllerPublishVolumeResponse, error) {
	if d.attacher == nil {
		return d.UnimplementedControllerServer.ControllerPublishVolume(ctx, req)
	}
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := requireText(field.NewPath("nodeID"), req.GetNodeId(), 2*longestField); err != nil {
		return nil, err
	}
	u, err := d.requireUsage(field.NewPath("volumeCapability"), req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	if req.GetReadonly() {
		return nil, field.Forbidden(field.NewPath("readonly"), "the driver does not declare PUBLISH_READONLY")
	}
	resp := &csipb.ControllerPublishVolumeResponse{}
	return resp, d.exclusively(ctx, "attach", id, func() error {
		v, err := d.describe(ctx, id, req.GetVolumeContext())
		if err != nil {
			return err
		}
		device, err := d.attach(ctx, v, u, req.GetNodeId())
		if err != nil {
			return fmt.Errorf("node %s: %w", input.Quote(req.GetNodeId()), err)
		}
		resp.PublishContext = map[string]string{DeviceKey: device}
		return nil
	})
}

// attach attaches a volume, and records it before.
func (d *driver) attach(ctx context.Context, v described, u usage, nodeID string) (device string, err error) {
	node, err := d.nodeName(ctx, nodeID)
	if err != nil {
		return "", err
	}
	rec, err := d.attached.read(v.id.text)
	if err != nil {
		return "", err
	}
	if rec == nil {
		rec = &attachRecord{Source: v.source, Nodes: map[string]usageRecord{}}
	}
	was, again := rec.Nodes[nodeID]
	if again && !was.equals(u.record()) {
		return "", codedf(codes.AlreadyExists, "attached with another capability")
	}
	spec, err := v.spec(u)
	if err != nil {
		return "", err
	}
	attacher, err := d.attacherOf(ctx, spec)
	if err != nil || attacher == nil {
		return "", err
	}
	if !again {
		rec.Nodes[nodeID] = u.record()
		if err := d.attached.write(v.id.text, *rec); err != nil {
			return "", err
		}
	}
	device, err = attacher.Attach(ctx, spec, node)
	if err != nil && !again && volume.KindOf(err) != volume.Uncertain {
		delete(rec.Nodes, nodeID)
		err = errors.Join(err, d.saveAttached(v.id, rec))
	}
	return device, err
}

// attacherOf returns the attacher of a volume, or nil for one that is not attached.
func (d *driver) attacherOf(ctx context.Context, spec *volume.Spec) (volume.Attacher, error) {
	if d.attacher == nil {
		return nil, nil
	}
	if able, err := d.attacher.CanAttach(ctx, spec); err != nil || !able {
		return nil, err
	}
	return d.attacher.NewAttacher()
}

// saveAttached writes a record, or removes an empty one.
func (d *driver) saveAttached(id volumeID, rec *attachRecord) error {
	if len(rec.Nodes) == 0 {
		return d.attached.remove(id.text)
	}
	return d.attached.write(id.text, *rec)
}

// nodeName returns the name of a node.
func (d *driver) nodeName(ctx context.Context, nodeID string) (types.NodeName, error) {
	name, err := d.config.NodeName(ctx, nodeID)
	if err != nil && volume.IsNotFound(err) {
		err = coded(codes.NotFound, err)
	}
	return name, err
}

// ControllerUnpublishVolume implements the controller service by the plugin's Detacher. An empty node ID
// stands for all nodes.
func (d *driver) ControllerUnpublishVolume(ctx context.Context, req *csipb.ControllerUnpublishVolumeRequest) (*csipb.ControllerUnpublishVolumeResponse, error) {
	if d.attacher == nil {
		return d.UnimplementedControllerServer.ControllerUnpublishVolume(ctx, req)
	}
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if reason := checkText(req.GetNodeId(), 2*longestField); reason != "" {
		return nil, volume.Invalid(field.NewPath("nodeID"), req.GetNodeId(), reason)
	}
	return &csipb.ControllerUnpublishVolumeResponse{}, d.exclusively(ctx, "detach", id, func() error {
		rec, err := d.attached.read(id.text)
		if err != nil || rec == nil {
			return err
		}
		for _, nodeID := range slices.Sorted(maps.Keys(rec.Nodes)) {
			if req.GetNodeId() != "" && req.GetNodeId() != nodeID {
				continue
			}
			if err := d.detach(ctx, id, rec, nodeID); err != nil {
				return fmt.Errorf("node %s: %w", input.Quote(nodeID), err)
			}
		}
		return nil
	})
}

// detach detaches a volume, and removes it from the record after that.
func (d *driver) detach(ctx context.Context, id volumeID, rec *attachRecord, nodeID string) error {
	node, err := d.config.NodeName(ctx, nodeID)
	switch {
	case volume.IsNotFound(err): // the node is gone, and its name was its ID or is not known any more
		node = types.NodeName(nodeID)
	case err != nil:
		return err
	}
	pv, err := described{id, rec.Source}.persistentVolume()
	if err != nil {
		return err
	}
	spec := volume.NewSpecFromPersistentVolume(pv, false)
	volumeName, err := d.config.Plugin.GetVolumeName(spec)
	if err != nil {
		return err
	}
	detacher, err := d.attacher.NewDetacher()
	if err != nil {
		return err
	}
	if err := detacher.Detach(ctx, volume.DetachRequest{VolumeName: volumeName, Node: node, Spec: spec}); err != nil {
		return err
	}
	delete(rec.Nodes, nodeID)
	return d.saveAttached(id, rec)
}

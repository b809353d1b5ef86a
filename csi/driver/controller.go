package driver

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/redact"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ControllerGetCapabilities implements the controller service.
func (d *driver) ControllerGetCapabilities(context.Context, *csipb.ControllerGetCapabilitiesRequest) (*csipb.ControllerGetCapabilitiesResponse, error) {
	resp := &csipb.ControllerGetCapabilitiesResponse{}
	declare := func(able bool, types ...csipb.ControllerServiceCapability_RPC_Type) {
		for _, t := range types {
			if able {
				resp.Capabilities = append(resp.Capabilities, &csipb.ControllerServiceCapability{
					Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: t}},
				})
			}
		}
	}
	declare(d.provisioner != nil, csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csipb.ControllerServiceCapability_RPC_LIST_VOLUMES)
	declare(d.attacher != nil, csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	declare(d.attacher != nil && d.provisioner != nil, csipb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES)
	declare(d.config.Capacity != nil, csipb.ControllerServiceCapability_RPC_GET_CAPACITY)
	declare(d.expander != nil, csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME)
	declare(d.controls(), csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
	return resp, nil
}

// ValidateVolumeCapabilities implements the controller service.
func (d *driver) ValidateVolumeCapabilities(ctx context.Context, req *csipb.ValidateVolumeCapabilitiesRequest) (*csipb.ValidateVolumeCapabilitiesResponse, error) {
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, field.Required(field.NewPath("volumeCapabilities"), "the request needs one")
	}
	v, err := d.describe(ctx, id, req.GetVolumeContext())
	if err != nil {
		return nil, err
	}
	rec, err := d.createdVolume(id)
	if err != nil {
		return nil, err
	}
	if err := d.validate(v, rec, req); err != nil {
		return &csipb.ValidateVolumeCapabilitiesResponse{Message: redaction.Message(err.Error(), redact.Secrets(req))}, nil
	}
	return &csipb.ValidateVolumeCapabilitiesResponse{Confirmed: &csipb.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
	}}, nil
}

// validate returns an error if the volume lacks one of the capabilities.
func (d *driver) validate(v described, rec *volumeRecord, req *csipb.ValidateVolumeCapabilitiesRequest) error {
	usages, err := d.requireUsages(req.GetVolumeCapabilities())
	if err != nil {
		return err
	}
	if len(req.GetMutableParameters()) > 0 {
		return field.Forbidden(field.NewPath("mutableParameters"), "the driver does not declare MODIFY_VOLUME")
	}
	if rec != nil {
		parameters, _ := classParameters(req.GetParameters())
		switch {
		case usages[0].block != rec.Usage.Block:
			return codedf(codes.InvalidArgument, "the volume was created with another access type")
		case len(parameters) > 0 && !maps.Equal(parameters, rec.Parameters):
			return codedf(codes.InvalidArgument, "the volume was created with other parameters")
		}
	}
	for _, u := range usages {
		if err := d.checkUsage(v, u); err != nil {
			return err
		}
	}
	return nil
}

// checkUsage asks the plugin whether it can mount, or map, the volume so. It changes nothing.
func (d *driver) checkUsage(v described, u usage) error {
	spec, err := v.spec(u)
	if err != nil {
		return err
	}
	if u.block {
		_, err = d.block.NewBlockVolumeMapper(spec, podAt("/"))
		return err
	}
	_, err = d.config.Plugin.NewMounter(spec, podAt("/"))
	return err
}

// GetCapacity implements the controller service by Config.Capacity. Other topologies than this node's
// have no capacity: their own driver reports it.
func (d *driver) GetCapacity(ctx context.Context, req *csipb.GetCapacityRequest) (*csipb.GetCapacityResponse, error) {
	if d.config.Capacity == nil {
		return d.UnimplementedControllerServer.GetCapacity(ctx, req)
	}
	if len(req.GetVolumeCapabilities()) > 0 {
		if _, err := d.requireUsages(req.GetVolumeCapabilities()); err != nil {
			return &csipb.GetCapacityResponse{}, nil // no such volume can be created
		}
	}
	if t := req.GetAccessibleTopology(); t != nil && !includes(d.ownTopology(), t.GetSegments()) {
		return &csipb.GetCapacityResponse{}, nil
	}
	if err := checkMap(field.NewPath("parameters"), req.GetParameters()); err != nil {
		return nil, err
	}
	parameters, _ := classParameters(req.GetParameters())
	c, err := d.config.Capacity(ctx, parameters)
	if err != nil {
		return nil, fmt.Errorf("get capacity: %w", err)
	}
	resp := &csipb.GetCapacityResponse{AvailableCapacity: max(c.Available, 0)}
	if c.Largest > 0 {
		resp.MaximumVolumeSize = wrapperspb.Int64(c.Largest)
	}
	return resp, nil
}

// tokenPrefix begins the token of a further page, which ends with the name of the last volume before it.
const tokenPrefix = "after-"

// ListVolumes implements the controller service: it lists the volumes that CreateVolume has created.
func (d *driver) ListVolumes(ctx context.Context, req *csipb.ListVolumesRequest) (*csipb.ListVolumesResponse, error) {
	if d.provisioner == nil {
		return d.UnimplementedControllerServer.ListVolumes(ctx, req)
	}
	if req.GetMaxEntries() < 0 {
		return nil, field.Invalid(field.NewPath("maxEntries"), req.GetMaxEntries(), "must be at least 0")
	}
	after, ok := strings.CutPrefix(req.GetStartingToken(), tokenPrefix)
	if req.GetStartingToken() != "" && (!ok || !isVolumeName(after)) {
		return nil, coded(codes.Aborted, volume.Invalid(field.NewPath("startingToken"), req.GetStartingToken(), "not a token of the driver"))
	}
	if req.GetStartingToken() == "" {
		after = ""
	}
	records, broken, err := d.volumes.all()
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	for _, err := range broken {
		d.config.Logger.Error("unreadable record", "error", err)
	}
	return d.page(records, after, req.GetMaxEntries()), nil
}

// page returns the volumes after a name, at most so many; 0: all.
func (d *driver) page(records map[string]volumeRecord, after string, most int32) *csipb.ListVolumesResponse {
	resp, last := &csipb.ListVolumesResponse{}, ""
	if most == 0 {
		most = math.MaxInt32
	}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		rec := records[name]
		if name <= after || rec.ID == "" {
			continue
		}
		if len(resp.Entries) == int(most) {
			resp.NextToken = tokenPrefix + last
			break
		}
		entry := &csipb.ListVolumesResponse_Entry{Volume: rec.message()}
		if d.attacher != nil {
			entry.Status = d.publishedNodes(rec.ID)
		}
		resp.Entries, last = append(resp.Entries, entry), name
	}
	return resp
}

// publishedNodes returns the nodes to which a volume is attached, or nil if its record is unreadable.
func (d *driver) publishedNodes(id string) *csipb.ListVolumesResponse_VolumeStatus {
	rec, err := d.attached.read(id)
	if err != nil {
		d.config.Logger.Error("unreadable record", "error", err)
		return nil
	}
	if rec == nil {
		return &csipb.ListVolumesResponse_VolumeStatus{}
	}
	return &csipb.ListVolumesResponse_VolumeStatus{PublishedNodeIds: slices.Sorted(maps.Keys(rec.Nodes))}
}

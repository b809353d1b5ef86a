package csitest

import (
	"context"
	"maps"
	"slices"
	"strconv"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ControllerGetCapabilities implements [csipb.ControllerServer].
func (d *Driver) ControllerGetCapabilities(context.Context, *csipb.ControllerGetCapabilitiesRequest) (*csipb.ControllerGetCapabilitiesResponse, error) {
	var all []*csipb.ControllerServiceCapability
	for _, rpc := range d.config.Capabilities.Controller {
		all = append(all, &csipb.ControllerServiceCapability{
			Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: rpc}},
		})
	}
	return &csipb.ControllerGetCapabilitiesResponse{Capabilities: all}, nil
}

// CreateVolume implements [csipb.ControllerServer]. The ID of the volume is its name, its context
// are its parameters. It is accessible in the topology that the client prefers, and a copy of the source
// that the client names. A volume that exists is the answer, also if its source has ended.
func (d *Driver) CreateVolume(_ context.Context, req *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volume(req.GetName())
	if !v.creation.inEffect {
		if source := req.GetVolumeContentSource().GetVolume(); source != nil && !d.exists(source.GetVolumeId()) {
			return nil, status.Errorf(codes.NotFound, "volume %q does not exist", source.GetVolumeId())
		}
		v.capacity, v.context = req.GetCapacityRange().GetRequiredBytes(), maps.Clone(req.GetParameters())
		v.source, v.topology = req.GetVolumeContentSource(), chosenTopology(req.GetAccessibilityRequirements())
	}
	v.creation.inEffect = true
	return &csipb.CreateVolumeResponse{Volume: volumeMessage(req.GetName(), v)}, nil
}

// chosenTopology returns the topology of a new volume: the first one that the client prefers or allows.
func chosenTopology(required *csipb.TopologyRequirement) []*csipb.Topology {
	for _, among := range [][]*csipb.Topology{required.GetPreferred(), required.GetRequisite()} {
		if len(among) > 0 {
			return among[:1]
		}
	}
	return nil
}

func volumeMessage(id string, v *volumeState) *csipb.Volume {
	return &csipb.Volume{
		VolumeId: id, CapacityBytes: v.capacity, VolumeContext: maps.Clone(v.context),
		ContentSource: v.source, AccessibleTopology: v.topology,
	}
}

// DeleteVolume implements [csipb.ControllerServer].
func (d *Driver) DeleteVolume(_ context.Context, req *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volume(req.GetVolumeId())
	v.creation.inEffect, v.context, v.capacity = false, nil, 0
	v.source, v.topology = nil, nil
	clear(v.requested)
	return &csipb.DeleteVolumeResponse{}, nil
}

// ControllerPublishVolume implements [csipb.ControllerServer].
func (d *Driver) ControllerPublishVolume(_ context.Context, req *csipb.ControllerPublishVolumeRequest) (*csipb.ControllerPublishVolumeResponse, error) {
	at, err := d.existing(req.GetVolumeId(), func(v *volumeState) *place { return v.attached.at(req.GetNodeId()) })
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !at.inEffect {
		at.context = maps.Clone(d.config.PublishContext)
	}
	at.inEffect = true
	return &csipb.ControllerPublishVolumeResponse{PublishContext: maps.Clone(at.context)}, nil
}

// ControllerUnpublishVolume implements [csipb.ControllerServer].
func (d *Driver) ControllerUnpublishVolume(_ context.Context, req *csipb.ControllerUnpublishVolumeRequest) (*csipb.ControllerUnpublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for node, at := range d.volume(req.GetVolumeId()).attached {
		if req.GetNodeId() == "" || node == req.GetNodeId() {
			at.inEffect, at.context = false, nil
		}
	}
	return &csipb.ControllerUnpublishVolumeResponse{}, nil
}

// ValidateVolumeCapabilities implements [csipb.ControllerServer]. It confirms everything.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context, req *csipb.ValidateVolumeCapabilitiesRequest) (*csipb.ValidateVolumeCapabilitiesResponse, error) {
	if _, err := d.existing(req.GetVolumeId(), func(v *volumeState) *place { return &v.creation }); err != nil {
		return nil, err
	}
	return &csipb.ValidateVolumeCapabilitiesResponse{Confirmed: &csipb.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
	}}, nil
}

// ListVolumes implements [csipb.ControllerServer]. A token is the number of the entries before it.
func (d *Driver) ListVolumes(_ context.Context, req *csipb.ListVolumesRequest) (*csipb.ListVolumesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(d.volumes)), func(id string) bool { return !d.volumes[id].creation.inEffect })
	start := 0
	if token := req.GetStartingToken(); token != "" {
		var err error
		if start, err = strconv.Atoi(token); err != nil || start < 0 || start > len(ids) {
			return nil, status.Errorf(codes.Aborted, "starting_token is invalid")
		}
	}
	end := len(ids)
	response := &csipb.ListVolumesResponse{}
	if most := int(req.GetMaxEntries()); most > 0 && start+most < end {
		end = start + most
		response.NextToken = strconv.Itoa(end)
	}
	for _, id := range ids[start:end] {
		response.Entries = append(response.Entries, &csipb.ListVolumesResponse_Entry{
			Volume: volumeMessage(id, d.volumes[id]),
			Status: &csipb.ListVolumesResponse_VolumeStatus{PublishedNodeIds: d.volumes[id].attached.keysInEffect()},
		})
	}
	return response, nil
}

// ControllerGetVolume implements [csipb.ControllerServer].
func (d *Driver) ControllerGetVolume(_ context.Context, req *csipb.ControllerGetVolumeRequest) (*csipb.ControllerGetVolumeResponse, error) {
	if _, err := d.existing(req.GetVolumeId(), func(v *volumeState) *place { return &v.creation }); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volume(req.GetVolumeId())
	return &csipb.ControllerGetVolumeResponse{
		Volume: volumeMessage(req.GetVolumeId(), v),
		Status: &csipb.ControllerGetVolumeResponse_VolumeStatus{PublishedNodeIds: v.attached.keysInEffect()},
	}, nil
}

// GetCapacity implements [csipb.ControllerServer]. It returns 1 TiB.
func (d *Driver) GetCapacity(context.Context, *csipb.GetCapacityRequest) (*csipb.GetCapacityResponse, error) {
	return &csipb.GetCapacityResponse{AvailableCapacity: 1 << 40}, nil
}

// ControllerModifyVolume implements [csipb.ControllerServer]: parameters that the call does not name stay.
func (d *Driver) ControllerModifyVolume(_ context.Context, req *csipb.ControllerModifyVolumeRequest) (*csipb.ControllerModifyVolumeResponse, error) {
	if _, err := d.existing(req.GetVolumeId(), func(v *volumeState) *place { return &v.creation }); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volume(req.GetVolumeId())
	if v.mutable == nil {
		v.mutable = map[string]string{}
	}
	maps.Copy(v.mutable, req.GetMutableParameters())
	return &csipb.ControllerModifyVolumeResponse{}, nil
}

// ControllerExpandVolume implements [csipb.ControllerServer]. A node has work to do with the node
// capability EXPAND_VOLUME.
func (d *Driver) ControllerExpandVolume(_ context.Context, req *csipb.ControllerExpandVolumeRequest) (*csipb.ControllerExpandVolumeResponse, error) {
	if _, err := d.existing(req.GetVolumeId(), func(v *volumeState) *place { return &v.creation }); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volume(req.GetVolumeId())
	v.capacity = max(v.capacity, req.GetCapacityRange().GetRequiredBytes())
	return &csipb.ControllerExpandVolumeResponse{
		CapacityBytes: v.capacity, NodeExpansionRequired: d.declaresNode(csipb.NodeServiceCapability_RPC_EXPAND_VOLUME),
	}, nil
}

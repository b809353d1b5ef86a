package driver

import (
	"context"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// GetPluginInfo implements the identity service.
func (d *driver) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: d.config.Name, VendorVersion: d.config.Version}, nil
}

// GetPluginCapabilities implements the identity service.
func (d *driver) GetPluginCapabilities(context.Context, *csipb.GetPluginCapabilitiesRequest) (*csipb.GetPluginCapabilitiesResponse, error) {
	resp := &csipb.GetPluginCapabilitiesResponse{}
	service := func(t csipb.PluginCapability_Service_Type) {
		resp.Capabilities = append(resp.Capabilities, &csipb.PluginCapability{
			Type: &csipb.PluginCapability_Service_{Service: &csipb.PluginCapability_Service{Type: t}},
		})
	}
	if d.controls() {
		service(csipb.PluginCapability_Service_CONTROLLER_SERVICE)
	}
	if len(d.config.Topology) > 0 {
		service(csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	if d.expander != nil || d.nodeExpand != nil {
		online := csipb.PluginCapability_VolumeExpansion_ONLINE
		if d.config.OfflineExpansion {
			online = csipb.PluginCapability_VolumeExpansion_OFFLINE
		}
		resp.Capabilities = append(resp.Capabilities, &csipb.PluginCapability{
			Type: &csipb.PluginCapability_VolumeExpansion_{VolumeExpansion: &csipb.PluginCapability_VolumeExpansion{Type: online}},
		})
	}
	return resp, nil
}

// Probe implements the identity service by Config.Healthy.
func (d *driver) Probe(ctx context.Context, _ *csipb.ProbeRequest) (*csipb.ProbeResponse, error) {
	if d.config.Healthy != nil {
		if err := d.config.Healthy(ctx); err != nil {
			return nil, coded(codes.FailedPrecondition, fmt.Errorf("probe: %w", err))
		}
	}
	return &csipb.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

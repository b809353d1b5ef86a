package csitest

import (
	"context"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// GetPluginInfo implements [csipb.IdentityServer].
func (d *Driver) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: d.config.Name, VendorVersion: d.config.Version}, nil
}

// GetPluginCapabilities implements [csipb.IdentityServer].
func (d *Driver) GetPluginCapabilities(context.Context, *csipb.GetPluginCapabilitiesRequest) (*csipb.GetPluginCapabilitiesResponse, error) {
	var all []*csipb.PluginCapability
	for _, service := range d.config.Capabilities.Plugin {
		all = append(all, &csipb.PluginCapability{Type: &csipb.PluginCapability_Service_{Service: &csipb.PluginCapability_Service{Type: service}}})
	}
	for _, expansion := range d.config.Capabilities.Expansion {
		all = append(all, &csipb.PluginCapability{Type: &csipb.PluginCapability_VolumeExpansion_{
			VolumeExpansion: &csipb.PluginCapability_VolumeExpansion{Type: expansion},
		}})
	}
	return &csipb.GetPluginCapabilitiesResponse{Capabilities: all}, nil
}

// Probe implements [csipb.IdentityServer].
func (d *Driver) Probe(context.Context, *csipb.ProbeRequest) (*csipb.ProbeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &csipb.ProbeResponse{Ready: wrapperspb.Bool(!d.notReady)}, nil
}

package main

import (
	"context"
	"net"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A comparedDriver is the part that the CSI drivers of all comparisons have in common. V is the state of a volume by
// which the driver answers.
type comparedDriver[V any] struct {
	csipb.UnimplementedIdentityServer
	csipb.UnimplementedControllerServer
	plugin     []*csipb.PluginCapability // beside the controller service
	controller []csipb.ControllerServiceCapability_RPC_Type

	mu      sync.Mutex
	volumes map[string]*V
}

// edit changes the state of a volume.
func (d *comparedDriver[V]) edit(volume string, change func(*V)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.volumes == nil {
		d.volumes = map[string]*V{}
	}
	if d.volumes[volume] == nil {
		d.volumes[volume] = new(V)
	}
	change(d.volumes[volume])
}

// serve serves a driver at the socket of the arena until the end of the test.
func (a *arena) serve(driver interface {
	csipb.IdentityServer
	csipb.ControllerServer
}) {
	a.Helper()
	listener, err := (&net.ListenConfig{}).Listen(a.ctx, "unix", a.socket)
	require.NoError(a, err)
	server := grpc.NewServer()
	csipb.RegisterIdentityServer(server, driver)
	csipb.RegisterControllerServer(server, driver)
	go func() { _ = server.Serve(listener) }()
	a.Cleanup(server.Stop)
}

// GetPluginInfo implements csipb.IdentityServer.
func (d *comparedDriver[V]) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

// Probe implements csipb.IdentityServer.
func (d *comparedDriver[V]) Probe(context.Context, *csipb.ProbeRequest) (*csipb.ProbeResponse, error) {
	return &csipb.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// GetPluginCapabilities implements csipb.IdentityServer.
func (d *comparedDriver[V]) GetPluginCapabilities(context.Context, *csipb.GetPluginCapabilitiesRequest) (*csipb.GetPluginCapabilitiesResponse, error) {
	service := &csipb.PluginCapability{Type: &csipb.PluginCapability_Service_{
		Service: &csipb.PluginCapability_Service{Type: csipb.PluginCapability_Service_CONTROLLER_SERVICE},
	}}
	return &csipb.GetPluginCapabilitiesResponse{Capabilities: append([]*csipb.PluginCapability{service}, d.plugin...)}, nil
}

// ControllerGetCapabilities implements csipb.ControllerServer.
func (d *comparedDriver[V]) ControllerGetCapabilities(context.Context, *csipb.ControllerGetCapabilitiesRequest) (*csipb.ControllerGetCapabilitiesResponse, error) {
	answer := &csipb.ControllerGetCapabilitiesResponse{}
	for _, kind := range d.controller {
		answer.Capabilities = append(answer.Capabilities, &csipb.ControllerServiceCapability{
			Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: kind}},
		})
	}
	return answer, nil
}

// An outcome is that of the next calls for a volume.
type outcome struct {
	code  codes.Code // OK: success
	times int        // the number of calls that fail with code; 0: all
}

// failure is the message of calls that fail.
const failure = "the storage is away"

// next returns the error of a call.
func (o *outcome) next() error {
	code := o.code
	if code == codes.OK {
		return nil
	}
	if o.times--; o.times == 0 {
		o.code = codes.OK
	}
	return status.Error(code, failure)
}

package main

import (
	"context"
	"net"
	"path"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// A driver answers all calls at once, and counts them.
type driver struct {
	csipb.UnimplementedNodeServer
	mu    sync.Mutex
	calls map[string]int // by method
}

// serveDriver serves a driver until stop is called.
func serveDriver(socket string) (d *driver, stop func(), err error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, nil, err
	}
	d = &driver{calls: map[string]int{}}
	server := grpc.NewServer(grpc.UnaryInterceptor(d.count))
	csipb.RegisterNodeServer(server, d)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	return d, func() {
		server.Stop()
		<-ended
	}, nil
}

func (d *driver) count(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	d.mu.Lock()
	d.calls[path.Base(info.FullMethod)]++
	d.mu.Unlock()
	return handler(ctx, request)
}

// takeCalls returns the numbers of calls since the last one.
func (d *driver) takeCalls() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = map[string]int{}
	return calls
}

func (*driver) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	return &csipb.NodeGetInfoResponse{NodeId: "bench"}, nil
}

func (*driver) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	return &csipb.NodeGetCapabilitiesResponse{Capabilities: []*csipb.NodeServiceCapability{{
		Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{
			Type: csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		}},
	}}}, nil
}

func (*driver) NodeStageVolume(context.Context, *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	return &csipb.NodeStageVolumeResponse{}, nil
}

func (*driver) NodePublishVolume(context.Context, *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	return &csipb.NodePublishVolumeResponse{}, nil
}

func (*driver) NodeUnpublishVolume(context.Context, *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	return &csipb.NodeUnpublishVolumeResponse{}, nil
}

func (*driver) NodeUnstageVolume(context.Context, *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	return &csipb.NodeUnstageVolumeResponse{}, nil
}

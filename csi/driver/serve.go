package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"runtime/debug"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/redact"
	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/internal/socketfile"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A driver serves one plugin.
type driver struct {
	csipb.UnimplementedIdentityServer
	csipb.UnimplementedControllerServer
	csipb.UnimplementedNodeServer

	config Config
	abilities
	mounts   *podvolume.Mounts // nil: no raw devices
	inFlight calls
	volumes  store[volumeRecord]
	attached store[attachRecord]
	onNode   store[nodeRecord]
	targets  targets
	own      ownDirs
	boot     string // ID of the running system
}

// Serve serves the plugin on the listener until ctx ends, and closes the listener. It first
// initialises the plugin and reads the records of the node. After the end of ctx, calls in flight have
// the grace period to end, and Serve returns nil. Steps of the calls are reported to the receivers of ctx, see package
// util/progress. An invalid configuration is a *field.Error.
//
// Only one process at a time may serve a driver with the same Host or the same ControllerDir.
func Serve(ctx context.Context, listener net.Listener, config Config) (err error) {
	defer brief.Shorten(&err)
	d, err := newDriver(ctx, config)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return listener.Close()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("serve driver %s: %w", brief.Name(config.Name), err), listener.Close())
	}
	if l, ok := listener.(*socketfile.Listener); ok {
		l.LogTo(d.config.Logger)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(inheritProgress(ctx), d.intercept))
	csipb.RegisterIdentityServer(server, d)
	csipb.RegisterNodeServer(server, d)
	if d.controls() {
		csipb.RegisterControllerServer(server, d)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve driver %s: %w", config.Name, err)
	case <-ctx.Done():
	}
	stopInTime(server, d.config.GracePeriod)
	<-served
	return nil
}

// inheritProgress returns an interceptor that adds the receivers of progress of a context to those of each call.
func inheritProgress(from context.Context) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(progress.Inherit(ctx, from), req)
	}
}

// stopInTime waits for the calls in flight for a time, and then cuts their connections.
func stopInTime(server *grpc.Server, grace time.Duration) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.GracefulStop()
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
		server.Stop()
	}
}

// newDriver initialises the plugin and the records.
func newDriver(ctx context.Context, config Config) (*driver, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	d := &driver{config: config.defaults()}
	if _, err := volume.NewVolumePluginMgr(ctx, config.Host, config.Plugin); err != nil {
		return nil, err
	}
	var err error
	if d.abilities, err = abilitiesOf(d.config); err != nil {
		return nil, err
	}
	if config.Mounter != nil {
		d.mounts = podvolume.NewMounts(config.Host, config.Mounter)
	}
	if err := d.openStores(); err != nil {
		return nil, err
	}
	if d.own, err = findOwnDirs(ctx, d.config); err != nil {
		return nil, err
	}
	if d.boot, err = bootid.Read(); err != nil {
		return nil, err
	}
	return d, d.readTargets()
}

// intercept runs one call: it turns errors and panics into statuses, and logs them.
func (d *driver) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if r := recover(); r != nil {
			d.config.Logger.Error("panic", "call", path.Base(info.FullMethod), "stack", string(debug.Stack()))
			resp, err = nil, status.Error(codes.Internal, "the driver has a defect: its log has the stack")
		}
	}()
	resp, err = handler(ctx, req)
	if err == nil {
		return resp, nil
	}
	code := codeOf(err)
	if s, ok := status.FromError(err); ok { // of the Unimplemented servers, or of a driver that the plugin calls
		code, err = s.Code(), errors.New(s.Message())
	}
	message := redaction.Message(err.Error(), redact.Secrets(req))
	d.config.Logger.Warn("call failed", "call", path.Base(info.FullMethod), "code", code.String(), "error", message)
	return nil, status.Error(code, message)
}

package csi_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/volumekit/volumekit/csi/csitest"
)

// A relay serves at one socket the driver at another. It plays each call for a volume, with its outcome,
// to a driver in memory that checks the rules of the specification.
type relay struct {
	model  *csitest.Driver
	driver *grpc.ClientConn
	turn   chan struct{} // of capacity 1: has an element during a call for a volume
	// Calls fail while the driver does not run. False: they wait.
	isImpatient atomic.Bool

	mu       sync.Mutex // guards the rest
	waiting  int        // calls that wait for their turn
	overlaps []string
	files    map[string]fs.FileInfo // before the call; nil: missing
}

// newRelay serves the relay of a driver, which runs, until the end of the test.
func newRelay(t *testing.T, at, driver string) *relay {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+driver, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1, MaxDelay: 5 * time.Millisecond}, MinConnectTimeout: time.Second,
	}))
	require.NoError(t, err)
	r := &relay{driver: conn, turn: make(chan struct{}, 1)}
	r.model = csitest.NewDriver(csitest.Config{Files: relayFiles{r}, NodeID: "node-1", Capabilities: capabilitiesOf(t, conn)})
	server := grpc.NewServer(grpc.UnaryInterceptor(r.intercept))
	csipb.RegisterIdentityServer(server, csipb.UnimplementedIdentityServer{})
	csipb.RegisterControllerServer(server, csipb.UnimplementedControllerServer{})
	csipb.RegisterNodeServer(server, csipb.UnimplementedNodeServer{})
	listener, err := net.Listen("unix", at)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
		require.NoError(t, conn.Close())
	})
	return r
}

// capabilitiesOf returns the capabilities that a driver declares, for a node that attaches nothing.
func capabilitiesOf(t *testing.T, conn grpc.ClientConnInterface) (declared csitest.Capabilities) {
	t.Helper()
	wait := grpc.WaitForReady(true)
	plugin, err := csipb.NewIdentityClient(conn).GetPluginCapabilities(t.Context(), &csipb.GetPluginCapabilitiesRequest{}, wait)
	require.NoError(t, err)
	for _, c := range plugin.Capabilities {
		declared.Plugin = append(declared.Plugin, c.GetService().GetType())
	}
	controller, err := csipb.NewControllerClient(conn).ControllerGetCapabilities(t.Context(), &csipb.ControllerGetCapabilitiesRequest{}, wait)
	require.NoError(t, err)
	for _, c := range controller.Capabilities {
		if rpc := c.GetRpc().GetType(); rpc != csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME {
			declared.Controller = append(declared.Controller, rpc)
		}
	}
	node, err := csipb.NewNodeClient(conn).NodeGetCapabilities(t.Context(), &csipb.NodeGetCapabilitiesRequest{}, wait)
	require.NoError(t, err)
	for _, c := range node.Capabilities {
		declared.Node = append(declared.Node, c.GetRpc().GetType())
	}
	return declared
}

// violations returns the rules that clients have broken.
func (r *relay) violations() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.model.Violations() {
		all = append(all, v.String())
	}
	return append(all, r.overlaps...)
}

// intercept makes a call of a client to the driver, and to the model.
func (r *relay) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	of, ok := req.(interface{ GetVolumeId() string })
	if !ok {
		return r.forward(ctx, req, info.FullMethod)
	}
	r.begin()
	defer func() { <-r.turn }()
	r.lookAt(req)
	response, err := r.forward(ctx, req, info.FullMethod)
	r.play(ctx, req, info.FullMethod, err)
	r.mu.Lock()
	waiting := r.waiting > 0
	r.mu.Unlock()
	if waiting && !endsSoon(ctx) {
		r.mu.Lock()
		r.overlaps = append(r.overlaps, fmt.Sprintf("a call for %s during %s", of.GetVolumeId(), info.FullMethod))
		r.mu.Unlock()
	}
	return response, err
}

// begin waits for the end of the call in flight.
func (r *relay) begin() {
	r.mu.Lock()
	r.waiting++
	r.mu.Unlock()
	r.turn <- struct{}{}
	r.mu.Lock()
	r.waiting--
	r.mu.Unlock()
}

// endsSoon reports whether the client of a call has died. The server notices that after the client's next
// process may have called.
func endsSoon(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}

// forward makes a call to the driver.
func (r *relay) forward(ctx context.Context, req any, method string) (any, error) {
	response, err := responseOf(method)
	if err == nil {
		err = r.driver.Invoke(ctx, method, req, response, grpc.WaitForReady(!r.isImpatient.Load()))
	}
	return response, err
}

// responseOf returns an empty response of a method such as /csi.v1.Node/NodeStageVolume.
func responseOf(method string) (proto.Message, error) {
	service, name := path.Split(method)
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(path.Base(service) + "." + name))
	if err != nil {
		return nil, err
	}
	response, err := protoregistry.GlobalTypes.FindMessageByName(found.(protoreflect.MethodDescriptor).Output().FullName())
	if err != nil {
		return nil, err
	}
	return response.New().Interface(), nil
}

// play makes a call to the model, with the outcome of the driver. The model has the target of a call that
// failed if the driver has left the target.
func (r *relay) play(ctx context.Context, req any, method string, outcome error) {
	if outcome != nil {
		fault := csitest.Fault{Code: status.Code(outcome), Message: outcome.Error(), Times: 1}
		if publish, ok := req.(*csipb.NodePublishVolumeRequest); ok {
			_, err := os.Lstat(publish.TargetPath)
			fault.After = err == nil
		}
		r.model.Inject(fault)
	}
	response, err := responseOf(method)
	if err == nil {
		err = r.model.Conn().Invoke(context.WithoutCancel(ctx), method, req, response)
	}
	if (err == nil) != (outcome == nil) && len(r.model.Violations()) == 0 {
		r.mu.Lock()
		r.overlaps = append(r.overlaps, fmt.Sprintf("%s: the driver in memory returns %v, the driver %v", method, err, outcome))
		r.mu.Unlock()
	}
}

// lookAt records the files that the rules are about, before the driver changes them.
func (r *relay) lookAt(req any) {
	files := map[string]fs.FileInfo{}
	add := func(name string) { files[name], _ = os.Lstat(name) }
	if of, ok := req.(interface{ GetStagingTargetPath() string }); ok {
		add(of.GetStagingTargetPath())
	}
	if of, ok := req.(interface{ GetTargetPath() string }); ok {
		add(of.GetTargetPath())
		add(path.Dir(of.GetTargetPath()))
	}
	r.mu.Lock()
	r.files = files
	r.mu.Unlock()
}

// relayFiles are the files of the node before a call. The model changes none.
type relayFiles struct{ *relay }

// Lstat implements [csitest.Files].
func (f relayFiles) Lstat(name string) (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if info := f.files[name]; info != nil {
		return info, nil
	}
	return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
}

// Mkdir implements [csitest.Files].
func (relayFiles) Mkdir(string, fs.FileMode) error { return nil }

// Remove implements [csitest.Files].
func (relayFiles) Remove(string) error { return nil }

// WriteFile implements [csitest.Files].
func (relayFiles) WriteFile(string, []byte, fs.FileMode) error { return nil }

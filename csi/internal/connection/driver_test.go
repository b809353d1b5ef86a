package connection

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// A testDriver is a driver whose Node service calls functions of the test.
type testDriver struct {
	csipb.UnimplementedIdentityServer
	csipb.UnimplementedControllerServer
	csipb.UnimplementedNodeServer
	stage    func(context.Context, *csipb.NodeStageVolumeRequest) error
	accepted atomic.Int32 // connections
	calls    atomic.Int32 // of stage
}

func (d *testDriver) NodeStageVolume(ctx context.Context, request *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	d.calls.Add(1)
	if d.stage != nil {
		if err := d.stage(ctx, request); err != nil {
			return nil, err
		}
	}
	return &csipb.NodeStageVolumeResponse{}, nil
}

func (d *testDriver) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: "test.csi.example"}, nil
}

func (d *testDriver) GetCapacity(context.Context, *csipb.GetCapacityRequest) (*csipb.GetCapacityResponse, error) {
	return &csipb.GetCapacityResponse{AvailableCapacity: 1}, nil
}

// A countingListener counts the connections of a driver.
type countingListener struct {
	net.Listener
	driver *testDriver
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.driver.accepted.Add(1)
	}
	return conn, err
}

// socketPath returns a path that is short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "csi.sock")
}

func listen(t *testing.T, endpoint string) net.Listener {
	t.Helper()
	_ = os.Remove(endpoint)
	l, err := net.Listen("unix", endpoint)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serve serves the driver until the returned server stops.
func (d *testDriver) serve(t *testing.T, endpoint string, options ...grpc.ServerOption) *grpc.Server {
	t.Helper()
	l := listen(t, endpoint)
	server := grpc.NewServer(options...)
	csipb.RegisterIdentityServer(server, d)
	csipb.RegisterControllerServer(server, d)
	csipb.RegisterNodeServer(server, d)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(countingListener{l, d})
	}()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return server
}

// dial returns a connection that the test closes.
func dial(t *testing.T, config Config) *Connection {
	t.Helper()
	c, err := Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func stage(t *testing.T, c *Connection) error {
	t.Helper()
	_, err := c.Node().NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{VolumeId: "v"})
	return err
}

// requireNoLeak fails the test if its end leaves more goroutines than its beginning. Call it first.
func requireNoLeak(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() { // require.Eventually has a goroutine of its own
		for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "goroutines are left")
		}
	})
}

package registration

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	storagev1 "k8s.io/api/storage/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volumekit/volumekit/csi"
)

const driverName = "test.csi.example"

// A world is a directory of sockets, a driver, and the cluster that the watcher writes to.
type world struct {
	*testing.T
	dir     string // for the sockets of drivers
	sockets string // that the watcher watches
	cluster *testCluster
}

func newWorld(t *testing.T) *world {
	t.Helper()
	before := runtime.NumGoroutine()
	dir, err := os.MkdirTemp("", "reg") // t.TempDir is too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, os.RemoveAll(dir))
		// require.Eventually has a goroutine of its own.
		for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "goroutines are left")
		}
	})
	sockets := filepath.Join(dir, "registry")
	require.NoError(t, os.Mkdir(sockets, 0o755))
	return &world{t, dir, sockets, &testCluster{drivers: map[string]storagev1.CSINodeDriver{}, labels: map[string]string{}}}
}

// watch runs a watcher until the test ends, or stop is called.
func (w *world) watch(change ...func(*Config)) (watcher *Watcher, stop func()) {
	w.Helper()
	config := Config{Dir: w.sockets, Node: w.cluster, Backoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, Poll: 5 * time.Millisecond}
	for _, change := range change {
		change(&config)
	}
	watcher, err := New(config)
	require.NoError(w, err)
	return watcher, w.run(watcher.Run)
}

// run runs a function with a context until the test ends, or stop is called.
func (w *world) run(work func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- work(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(w, <-ended)
	})
	w.Cleanup(stop)
	return stop
}

func (w *world) waitUntil(is func() bool) {
	w.Helper()
	require.Eventually(w, is, time.Minute, time.Millisecond)
}

// waitFor waits until a driver is registered, and returns it.
func (w *world) waitFor(watcher *Watcher, name string) (driver csi.Driver) {
	w.Helper()
	w.waitUntil(func() (ok bool) {
		driver, ok = watcher.Driver(name)
		return ok
	})
	return driver
}

// A testCluster is a NodeWriter in memory.
type testCluster struct {
	mu      sync.Mutex
	drivers map[string]storagev1.CSINodeDriver
	labels  map[string]string
	err     error // of writes
	writes  []string
}

func (c *testCluster) PutDriver(_ context.Context, driver storagev1.CSINodeDriver, topology map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, "put "+driver.NodeID)
	if c.err == nil {
		c.drivers[driver.Name] = driver
		maps.Copy(c.labels, topology)
	}
	return c.err
}

func (c *testCluster) RemoveDriver(_ context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, "remove "+name)
	if c.err == nil {
		delete(c.drivers, name)
	}
	return c.err
}

func (c *testCluster) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *testCluster) nodeID(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drivers[name].NodeID
}

// count returns the number of writes.
func (c *testCluster) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.writes)
}

// A testDriver answers NodeGetInfo and GetPluginInfo.
type testDriver struct {
	csipb.UnimplementedNodeServer
	csipb.UnimplementedIdentityServer
	name   string
	answer func(context.Context) (*csipb.NodeGetInfoResponse, error)
}

func (d *testDriver) NodeGetInfo(ctx context.Context, _ *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	return d.answer(ctx)
}

func (d *testDriver) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: d.name}, nil
}

// driver serves a driver on this node with a node ID, and returns its endpoint.
func (w *world) driver(nodeID string) (endpoint string) {
	w.Helper()
	return w.serveDriver(nodeID+".sock", &testDriver{name: driverName, answer: func(context.Context) (*csipb.NodeGetInfoResponse, error) {
		return &csipb.NodeGetInfoResponse{
			NodeId: nodeID, MaxVolumesPerNode: 7,
			AccessibleTopology: &csipb.Topology{Segments: map[string]string{"example.com/zone": "z1", "example.com/rack": "r1"}},
		}, nil
	}})
}

func (w *world) serveDriver(file string, d *testDriver) (endpoint string) {
	w.Helper()
	endpoint = filepath.Join(w.dir, file)
	w.serveGRPC(endpoint, func(server *grpc.Server) {
		csipb.RegisterNodeServer(server, d)
		csipb.RegisterIdentityServer(server, d)
	})
	return endpoint
}

// serveGRPC serves until the test ends, or stop is called, which removes the socket.
func (w *world) serveGRPC(path string, register func(*grpc.Server), options ...grpc.ServerOption) (stop func()) {
	w.Helper()
	l, err := net.Listen("unix", path)
	require.NoError(w, err)
	server := grpc.NewServer(options...)
	register(server)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	stop = sync.OnceFunc(func() {
		server.Stop()
		<-ended
	})
	w.Cleanup(stop)
	return stop
}

// A testRegistrar serves the registration API with any answer.
type testRegistrar struct {
	registerapi.UnimplementedRegistrationServer
	info   *registerapi.PluginInfo
	block  bool // GetInfo waits for its context
	status chan *registerapi.RegistrationStatus
}

func (r *testRegistrar) GetInfo(ctx context.Context, _ *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	if r.block {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return r.info, nil
}

func (r *testRegistrar) NotifyRegistrationStatus(_ context.Context, status *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	select {
	case r.status <- status:
	default:
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// registrar serves an answer on a socket of the directory.
func (w *world) registrar(file string, info *registerapi.PluginInfo) (r *testRegistrar, stop func()) {
	w.Helper()
	r = &testRegistrar{info: info, status: make(chan *registerapi.RegistrationStatus, 100)}
	return r, w.serveRegistrar(file, r)
}

func (w *world) serveRegistrar(file string, r registerapi.RegistrationServer) (stop func()) {
	w.Helper()
	return w.serveGRPC(filepath.Join(w.sockets, file), func(s *grpc.Server) { registerapi.RegisterRegistrationServer(s, r) })
}

// info returns a valid answer for an endpoint.
func info(endpoint string) *registerapi.PluginInfo {
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: driverName, Endpoint: endpoint, SupportedVersions: []string{"1.0.0"}}
}

// serve runs Serve for a driver until the test ends, or stop is called.
func (w *world) serve(endpoint string, change ...func(*ServerConfig)) (stop func()) {
	w.Helper()
	config := ServerConfig{Dir: w.sockets, Endpoint: endpoint, Driver: driverName}
	for _, change := range change {
		change(&config)
	}
	return w.run(func(ctx context.Context) error { return Serve(ctx, config) })
}

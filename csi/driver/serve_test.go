package driver_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestCapabilities: the declared capabilities are those of the plugin's abilities; other calls are
// UNIMPLEMENTED.
func TestCapabilities(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, func(c *driver.Config) {
		c.Topology = []driver.Segment{{Key: "example.com/node", Value: "node-1"}}
		c.Capacity = func(context.Context, map[string]string) (driver.Capacity, error) { return driver.Capacity{}, nil }
	})
	require.Equal(t, []string{"CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS", "ONLINE"}, r.pluginCapabilities())
	require.Equal(t, []string{"CREATE_DELETE_VOLUME", "LIST_VOLUMES", "PUBLISH_UNPUBLISH_VOLUME", "LIST_VOLUMES_PUBLISHED_NODES",
		"GET_CAPACITY", "EXPAND_VOLUME", "SINGLE_NODE_MULTI_WRITER"}, r.controllerCapabilities())
	require.Equal(t, []string{"STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS", condition.Capability.String(), "EXPAND_VOLUME", "SINGLE_NODE_MULTI_WRITER"}, r.nodeCapabilities())
	_, err := r.controller.CreateSnapshot(t.Context(), &csipb.CreateSnapshotRequest{})
	requireCode(t, codes.Unimplemented, err)

	r = newRig(t, volumetest.FakeConfig{}, func(c *driver.Config) {
		c.Plugin = nfs.New(nfs.Config{Mounter: mounttest.NewFake(mount.Config{})})
	})
	require.Empty(t, r.pluginCapabilities())
	require.Equal(t, []string{"GET_VOLUME_STATS", condition.Capability.String(), "SINGLE_NODE_MULTI_WRITER"}, r.nodeCapabilities())
	_, err = r.controller.CreateVolume(t.Context(), createRequest("pvc-1"))
	requireCode(t, codes.Unimplemented, err)
	requireCode(t, codes.Unimplemented, r.stage(&csipb.Volume{VolumeId: "a"}, writer))
}

func (r *rig) pluginCapabilities() (names []string) {
	r.t.Helper()
	resp, err := r.identity.GetPluginCapabilities(r.t.Context(), &csipb.GetPluginCapabilitiesRequest{})
	require.NoError(r.t, err)
	for _, c := range resp.Capabilities {
		if s := c.GetService(); s != nil {
			names = append(names, s.Type.String())
		} else {
			names = append(names, c.GetVolumeExpansion().Type.String())
		}
	}
	return names
}

func (r *rig) controllerCapabilities() (names []string) {
	r.t.Helper()
	resp, err := r.controller.ControllerGetCapabilities(r.t.Context(), &csipb.ControllerGetCapabilitiesRequest{})
	require.NoError(r.t, err)
	for _, c := range resp.Capabilities {
		names = append(names, c.GetRpc().Type.String())
	}
	return names
}

func (r *rig) nodeCapabilities() (names []string) {
	r.t.Helper()
	resp, err := r.node.NodeGetCapabilities(r.t.Context(), &csipb.NodeGetCapabilitiesRequest{})
	require.NoError(r.t, err)
	for _, c := range resp.Capabilities {
		names = append(names, c.GetRpc().Type.String())
	}
	return names
}

// TestTopology: volumes are created in the first topology that the plugin can, and are reached from
// there alone.
func TestTopology(t *testing.T) {
	const key = "topology.example.com/node"
	r := newRig(t, volumetest.FakeConfig{Nodes: []types.NodeName{"node-1"}}, func(c *driver.Config) {
		c.Topology = []driver.Segment{{Key: key, Value: "node-1"}}
		c.Capacity = func(context.Context, map[string]string) (driver.Capacity, error) {
			return driver.Capacity{Available: 7, Largest: 5}, nil
		}
	})
	info, err := r.node.NodeGetInfo(t.Context(), &csipb.NodeGetInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{key: "node-1"}, info.AccessibleTopology.Segments)

	at := func(nodes ...string) (topologies []*csipb.Topology) {
		for _, node := range nodes {
			topologies = append(topologies, &csipb.Topology{Segments: map[string]string{key: node}})
		}
		return topologies
	}
	create := func(name string, preferred, requisite []*csipb.Topology) (*csipb.CreateVolumeResponse, error) {
		req := createRequest(name)
		req.AccessibilityRequirements = &csipb.TopologyRequirement{Preferred: preferred, Requisite: requisite}
		return r.controller.CreateVolume(t.Context(), req)
	}
	resp, err := create("pvc-1", at("node-2"), at("node-2", "node-1"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{key: "node-1"}, resp.Volume.AccessibleTopology[0].Segments)
	_, err = create("pvc-1", nil, at("node-2"))
	requireCode(t, codes.AlreadyExists, err)
	_, err = create("pvc-2", nil, at("node-2", "node-3"))
	requireCode(t, codes.ResourceExhausted, err)
	require.Equal(t, map[string]string{key: "node-1"}, r.create("pvc-3").AccessibleTopology[0].Segments)
	for _, invalid := range map[string]*csipb.Topology{
		"empty": {}, "another key": {Segments: map[string]string{"zone": "a"}}, "no value": {Segments: map[string]string{key: ""}}, "a bad value": {Segments: map[string]string{key: "../x"}},
	} {
		_, err = create("pvc-4", nil, []*csipb.Topology{invalid})
		requireCode(t, codes.InvalidArgument, err)
	}

	capacity := func(of *csipb.Topology) int64 {
		resp, err := r.controller.GetCapacity(t.Context(), &csipb.GetCapacityRequest{AccessibleTopology: of})
		require.NoError(t, err)
		return resp.AvailableCapacity
	}
	require.EqualValues(t, 7, capacity(nil))
	require.EqualValues(t, 7, capacity(at("node-1")[0]))
	require.Zero(t, capacity(at("node-2")[0]))
}

// TestSecrets: no secret of a request is in an error or in the log.
func TestSecrets(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, volumetest.FakeConfig{}, func(c *driver.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	const secret = "hunter2"
	secrets := map[string]string{"password": secret}
	capability := mounted(writer, "password="+secret, "bogus")
	var errs []error
	add := func(_ any, err error) { errs = append(errs, err) }
	add(r.controller.CreateVolume(t.Context(), &csipb.CreateVolumeRequest{Name: secret + "\x00", Secrets: secrets}))
	add(r.controller.ControllerPublishVolume(t.Context(), &csipb.ControllerPublishVolumeRequest{VolumeId: secret, NodeId: secret, VolumeCapability: capability}))
	create := createRequest("pvc-2")
	create.Secrets, create.VolumeCapabilities = secrets, []*csipb.VolumeCapability{capability}
	_, err := r.controller.CreateVolume(t.Context(), create)
	require.NoError(t, err)
	v := r.ready("pvc-1", writer)
	req := r.publishRequest(v, r.target("a"), writer)
	req.Secrets, req.VolumeCapability = secrets, capability
	r.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: fmt.Errorf("options %q", capability.GetMount().MountFlags)})
	add(r.node.NodePublishVolume(t.Context(), req))
	for _, err := range errs {
		require.Error(t, err)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), secret)
	}
	r.stop()
	require.Contains(t, log.String(), "NodePublishVolume")
	require.NotContains(t, log.String(), secret)
	require.NoError(t, filepath.WalkDir(r.root, func(p string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			text, err := os.ReadFile(p)
			require.NoError(t, err)
			require.NotContains(t, string(text), secret, p)
		}
		return err
	}))
}

// panicPlugin has a defect.
type panicPlugin struct{ *volumetest.FakePlugin }

func (panicPlugin) NewProvisioner(volume.VolumeOptions) (volume.Provisioner, error) { panic("defect") }

// TestPanic: a defect of a plugin costs one call.
func TestPanic(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	r.stop()
	r.change = func(c *driver.Config) { c.Plugin = panicPlugin{r.plugin} }
	r.start()
	for range 2 {
		_, err := r.controller.CreateVolume(t.Context(), createRequest("pvc-1"))
		requireCode(t, codes.Internal, err)
	}
	_, err := r.identity.Probe(t.Context(), &csipb.ProbeRequest{})
	require.NoError(t, err)
}

// TestIdentity answers with the configuration.
func TestIdentity(t *testing.T) {
	healthy := error(nil)
	r := newRig(t, volumetest.FakeConfig{}, func(c *driver.Config) { c.Healthy = func(context.Context) error { return healthy } })
	info, err := r.identity.GetPluginInfo(t.Context(), &csipb.GetPluginInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, "fake.example.com", info.Name)
	probe, err := r.identity.Probe(t.Context(), &csipb.ProbeRequest{})
	require.NoError(t, err)
	require.True(t, probe.Ready.Value)
	healthy = io.ErrUnexpectedEOF
	_, err = r.identity.Probe(t.Context(), &csipb.ProbeRequest{})
	requireCode(t, codes.FailedPrecondition, err)
}

// TestServeRefuses: an invalid configuration is an error, and the listener is closed.
func TestServeRefuses(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	valid := func() driver.Config {
		return driver.Config{Name: "a.example.com", Version: "1", NodeID: "n", Plugin: volumetest.NewFakePlugin(volumetest.FakeConfig{}), Host: host}
	}
	tests := map[string]func(*driver.Config){
		"name":            func(c *driver.Config) { c.Name = "" },
		"long name":       func(c *driver.Config) { c.Name = strings.Repeat("a", 64) },
		"path":            func(c *driver.Config) { c.Name = "../a" },
		"version":         func(c *driver.Config) { c.Version = "" },
		"node":            func(c *driver.Config) { c.NodeID = "" },
		"long node":       func(c *driver.Config) { c.NodeID = strings.Repeat("a", 129) },
		"plugin":          func(c *driver.Config) { c.Plugin = nil },
		"nil plugin":      func(c *driver.Config) { c.Plugin = (*volumetest.FakePlugin)(nil) },
		"host":            func(c *driver.Config) { c.Host = nil },
		"volumes":         func(c *driver.Config) { c.MaxVolumes = -1 },
		"grace":           func(c *driver.Config) { c.GracePeriod = -1 },
		"relative":        func(c *driver.Config) { c.ControllerDir = "a" },
		"topology key":    func(c *driver.Config) { c.Topology = []driver.Segment{{Key: "/", Value: "a"}} },
		"topology value":  func(c *driver.Config) { c.Topology = []driver.Segment{{Key: "a"}} },
		"topology twice":  func(c *driver.Config) { c.Topology = []driver.Segment{{Key: "a", Value: "a"}, {Key: "b", Value: "a"}} },
		"incapable":       func(c *driver.Config) { c.Plugin = pathless{c.Plugin} },
		"missing records": func(c *driver.Config) { c.ControllerDir = filepath.Join(host.Root(), "missing") },
	}
	for name, change := range tests {
		config := valid()
		change(&config)
		listener := &closeListener{}
		err := driver.Serve(t.Context(), listener, config)
		require.Error(t, err, name)
		require.True(t, listener.closed, name)
		if name != "missing records" {
			require.ErrorAs(t, err, new(*field.Error), name)
		}
	}
}

// pathless hides the abilities of a plugin.
type pathless struct{ volume.VolumePlugin }

type closeListener struct {
	net.Listener
	closed bool
}

func (l *closeListener) Close() error {
	l.closed = true
	return nil
}

// TestListen: the socket of an earlier process is replaced, and nothing else.
func TestListen(t *testing.T) {
	dir, err := os.MkdirTemp("", "l")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := dir + "/csi.sock"
	first, err := driver.Listen(t.Context(), socket)
	require.NoError(t, err)
	info, err := os.Stat(socket)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077)
	_, err = driver.Listen(t.Context(), "unix://"+socket)
	require.ErrorContains(t, err, "another process serves")

	require.NoError(t, first.Close())
	require.NoFileExists(t, socket)
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())
	second, err := driver.Listen(t.Context(), "unix:"+socket)
	require.NoError(t, err, "a socket that no process serves")
	require.NoError(t, second.Close())

	require.NoError(t, os.WriteFile(socket, []byte("precious"), 0o600))
	_, err = driver.Listen(t.Context(), socket)
	require.ErrorContains(t, err, "not a socket")
	require.FileExists(t, socket)
	for _, invalid := range []string{"", "csi.sock", "tcp://localhost:1", "unix://", "/a\x00", "/" + strings.Repeat("a", 107)} {
		_, err = driver.Listen(t.Context(), invalid)
		require.ErrorAs(t, err, new(*field.Error), invalid)
	}
}

// TestRemovedSocketComesBack: new connections reach a driver whose socket another process has removed.
func TestRemovedSocketComesBack(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	socket := filepath.Dir(r.root) + "/csi.sock"
	require.NoError(t, os.Remove(socket))
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = csipb.NewIdentityClient(connection).GetPluginInfo(ctx, &csipb.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	require.NoError(t, err)
	r.stop()
	require.NoFileExists(t, socket)
}

// TestControllerDir: the records of the controller are in their own directory, for the next process.
func TestControllerDir(t *testing.T) {
	dir := t.TempDir()
	config := func(c *driver.Config) { c.ControllerDir = dir }
	r := newRig(t, volumetest.FakeConfig{}, config)
	v := r.create("pvc-1")
	r.stop()
	require.NoError(t, os.RemoveAll(r.root+"/plugins/volumekit.io/csi"))
	r.start()
	require.Equal(t, v.VolumeId, r.create("pvc-1").VolumeId)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "fake.example.com" }))
}

// TestProgress: a receiver in the context of Serve gets the steps of calls.
func TestProgress(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.ready("v", writer)
	r.stop()
	reports := make(chan string, 1)
	r.steps = func(report progress.Report) {
		select {
		case reports <- report.Step + " " + report.Object:
		default:
		}
	}
	r.start()
	r.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: time.Hour, Times: 1})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.node.NodePublishVolume(ctx, r.publishRequest(v, r.target("a"), writer))
		ended <- err
	}()
	require.Equal(t, "delay SetUp", <-reports)
	cancel()
	require.Equal(t, codes.Canceled, status.Code(<-ended))
}

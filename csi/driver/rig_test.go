package driver_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
)

// A rig is a driver of a fake plugin, with its clients.
type rig struct {
	t       *testing.T
	root    string // of the host
	kubelet string // the target directory
	mounter mount.Interface
	fake    volumetest.FakeConfig
	change  func(*driver.Config)
	device  string                // a raw device, as its map returns it
	failure error                 // of that map
	steps   func(progress.Report) // receives the steps, or nil

	plugin     *volumetest.FakePlugin
	identity   csipb.IdentityClient
	controller csipb.ControllerClient
	node       csipb.NodeClient
	stop       func()
}

// newRig starts a driver. Change may change its configuration.
func newRig(t *testing.T, fake volumetest.FakeConfig, change func(*driver.Config)) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	r := &rig{t: t, root: dir + "/root", kubelet: dir + "/kubelet", mounter: mounttest.NewFake(mount.Config{}), fake: fake, change: change}
	for _, sub := range []string{r.root, r.kubelet, r.staging(), filepath.Dir(r.target("a"))} {
		require.NoError(t, os.MkdirAll(sub, 0o750))
	}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// start starts the driver as a new process would, on the same kernel.
func (r *rig) start() {
	t := r.t
	t.Helper()
	host, err := volume.NewHost(t.Context(), r.root, volume.WithTargetDirs(r.kubelet), volume.WithNodeName("node-1"))
	require.NoError(t, err)
	r.fake.Mounter = r.mounter
	r.plugin = volumetest.NewFakePlugin(r.fake)
	config := driver.Config{Name: "fake.example.com", Version: "1", NodeID: "id-1", Plugin: r.plugin, Host: host}
	if r.change != nil {
		r.change(&config)
	}
	endpoint := filepath.Dir(r.root) + "/csi.sock"
	listener, err := driver.Listen(t.Context(), "unix://"+endpoint)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(progress.With(context.Background(), r.steps))
	served := make(chan error, 1)
	go func() { served <- driver.Serve(ctx, listener, config) }()
	connection, err := grpc.NewClient("unix:"+endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	r.identity, r.controller, r.node = csipb.NewIdentityClient(connection), csipb.NewControllerClient(connection), csipb.NewNodeClient(connection)
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		require.NoError(t, connection.Close())
		cancel()
		require.NoError(t, <-served)
	}
}

// restart ends the driver and starts it again.
func (r *rig) restart() {
	r.stop()
	r.start()
}

func (r *rig) staging() string { return r.kubelet + "/plugins/globalmount" }

func (r *rig) target(pod string) string { return r.kubelet + "/pods/" + pod + "/mount" }

const (
	writer       = csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	manyWriters  = csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	onlyReaders  = csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	singleWriter = csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
)

func mounted(mode csipb.VolumeCapability_AccessMode_Mode, flags ...string) *csipb.VolumeCapability {
	return &csipb.VolumeCapability{
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{MountFlags: flags}},
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: mode},
	}
}

func createRequest(name string) *csipb.CreateVolumeRequest {
	return &csipb.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csipb.VolumeCapability{mounted(manyWriters)}, CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 20},
	}
}

// create creates a volume.
func (r *rig) create(name string) *csipb.Volume {
	r.t.Helper()
	resp, err := r.controller.CreateVolume(r.t.Context(), createRequest(name))
	require.NoError(r.t, err)
	return resp.GetVolume()
}

func (r *rig) delete(id string) error {
	_, err := r.controller.DeleteVolume(r.t.Context(), &csipb.DeleteVolumeRequest{VolumeId: id})
	return err
}

// attach attaches a volume to the node, and returns the publish context.
func (r *rig) attach(v *csipb.Volume, mode csipb.VolumeCapability_AccessMode_Mode) map[string]string {
	r.t.Helper()
	resp, err := r.controller.ControllerPublishVolume(r.t.Context(), &csipb.ControllerPublishVolumeRequest{
		VolumeId: v.VolumeId, NodeId: "id-1", VolumeCapability: mounted(mode), VolumeContext: v.VolumeContext,
	})
	require.NoError(r.t, err)
	return resp.GetPublishContext()
}

func (r *rig) detach(v *csipb.Volume) error {
	_, err := r.controller.ControllerUnpublishVolume(r.t.Context(), &csipb.ControllerUnpublishVolumeRequest{VolumeId: v.VolumeId, NodeId: "id-1"})
	return err
}

func (r *rig) stage(v *csipb.Volume, mode csipb.VolumeCapability_AccessMode_Mode) error {
	_, err := r.node.NodeStageVolume(r.t.Context(), &csipb.NodeStageVolumeRequest{
		VolumeId: v.VolumeId, StagingTargetPath: r.staging(), VolumeCapability: mounted(mode), VolumeContext: v.VolumeContext,
	})
	return err
}

func (r *rig) unstage(v *csipb.Volume) error {
	_, err := r.node.NodeUnstageVolume(r.t.Context(), &csipb.NodeUnstageVolumeRequest{VolumeId: v.VolumeId, StagingTargetPath: r.staging()})
	return err
}

func (r *rig) publishRequest(v *csipb.Volume, target string, mode csipb.VolumeCapability_AccessMode_Mode) *csipb.NodePublishVolumeRequest {
	return &csipb.NodePublishVolumeRequest{
		VolumeId: v.VolumeId, StagingTargetPath: r.staging(), TargetPath: target, VolumeCapability: mounted(mode), VolumeContext: v.VolumeContext,
	}
}

func (r *rig) publish(v *csipb.Volume, target string, mode csipb.VolumeCapability_AccessMode_Mode) error {
	_, err := r.node.NodePublishVolume(r.t.Context(), r.publishRequest(v, target, mode))
	return err
}

func (r *rig) unpublish(v *csipb.Volume, target string) error {
	_, err := r.node.NodeUnpublishVolume(r.t.Context(), &csipb.NodeUnpublishVolumeRequest{VolumeId: v.VolumeId, TargetPath: target})
	return err
}

// isMounted reports whether a path is a mount point.
func (r *rig) isMounted(at string) bool {
	is, err := r.mounter.IsMountPoint(r.t.Context(), at)
	return err == nil && is
}

// ready returns a volume that is attached and staged.
func (r *rig) ready(name string, mode csipb.VolumeCapability_AccessMode_Mode) *csipb.Volume {
	r.t.Helper()
	v := r.create(name)
	r.attach(v, mode)
	require.NoError(r.t, r.stage(v, mode))
	return v
}

// requireCode checks the code of an error, and that its text is one short line.
func requireCode(t *testing.T, code codes.Code, err error) {
	t.Helper()
	s := status.Convert(err)
	require.Equal(t, code, s.Code(), "%v", err)
	require.LessOrEqual(t, len(s.Message()), 1024)
	require.NotContains(t, s.Message(), "\n")
	require.Empty(t, s.Details(), "the specification allows no details")
}

// requireNoRecords: nothing is left of any volume.
func (r *rig) requireNoRecords() {
	r.t.Helper()
	require.NoError(r.t, filepath.WalkDir(r.root+"/plugins/volumekit.io/csi", func(p string, entry fs.DirEntry, err error) error {
		require.NoError(r.t, err)
		require.True(r.t, entry.IsDir(), "left: %s", p)
		return nil
	}))
}

// knownNode knows the node of the rig alone.
func knownNode(c *driver.Config) {
	c.NodeName = func(_ context.Context, id string) (types.NodeName, error) {
		if id != "id-1" {
			return "", fs.ErrNotExist
		}
		return "node-1", nil
	}
}

package sanitytest_test

import (
	"cmp"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	"github.com/volumekit/volumekit/util/loop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	peer "k8s.io/mount-utils"
)

// TestPortedSanity runs csi-sanity on a driver that was written against k8s.io/mount-utils, with file systems and
// with block volumes. Its mounter is made as docs/migrate.md says, for both.
func TestPortedSanity(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	var all []served
	for _, access := range []string{"mount", "block"} {
		all = append(all, served{
			name:  "ported " + access,
			serve: func(t *testing.T, dir string) *sanity.TestConfig { return servePorted(t, dir, access) },
			skips: merge(notServed, map[string]string{
				"ControllerPublishVolume not supported":             noAttach,
				"ControllerUnpublishVolume not supported":           noAttach,
				"Controller Publish, UnpublishVolume not supported": noAttach,
				"ControllerExpandVolume not supported":              noGrowth,
				"NodeExpandVolume not supported":                    noGrowth,
				"ListVolumes not supported":                         noQueries,
				"GetCapacity not supported":                         noQueries,
				"NodeGetVolume not supported":                       noQueries,

				"Service does not have single node multi writer capability": "the driver does not tell writers apart",
			}),
		})
	}
	runSanity(t, all...)
}

const (
	noGrowth  = "the driver does not grow volumes"
	noQueries = "the driver has no queries"
)

// A ported driver has volumes that are files with loop devices.
type ported struct {
	csipb.UnimplementedIdentityServer
	csipb.UnimplementedControllerServer
	csipb.UnimplementedNodeServer
	dir     string
	mounter *mountutils.SafeFormatAndMount
}

func servePorted(t *testing.T, dir, access string) *sanity.TestConfig {
	t.Helper()
	d := &ported{dir: dir + "/claims", mounter: mountutils.NewSafeFormatAndMount(mountutils.New(mount.New(mount.Config{})), disk.New(disk.Config{}))}
	listener, err := net.Listen("unix", dir+"/csi.sock")
	require.NoError(t, err)
	server := grpc.NewServer()
	csipb.RegisterIdentityServer(server, d)
	csipb.RegisterControllerServer(server, d)
	csipb.RegisterNodeServer(server, d)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	test := sanity.NewTestConfig()
	test.Address, test.TargetPath, test.StagingPath = "unix:"+dir+"/csi.sock", dir+"/kubelet/target", dir+"/kubelet/staging"
	test.TestVolumeSize, test.TestVolumeAccessType = 16<<20, access
	return &test
}

func (d *ported) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: "ported.csi.example.com", VendorVersion: "1.0"}, nil
}

func (d *ported) GetPluginCapabilities(context.Context, *csipb.GetPluginCapabilitiesRequest) (*csipb.GetPluginCapabilitiesResponse, error) {
	return &csipb.GetPluginCapabilitiesResponse{Capabilities: []*csipb.PluginCapability{{
		Type: &csipb.PluginCapability_Service_{Service: &csipb.PluginCapability_Service{Type: csipb.PluginCapability_Service_CONTROLLER_SERVICE}},
	}}}, nil
}

func (d *ported) Probe(context.Context, *csipb.ProbeRequest) (*csipb.ProbeResponse, error) {
	return &csipb.ProbeResponse{}, nil
}

func (d *ported) ControllerGetCapabilities(context.Context, *csipb.ControllerGetCapabilitiesRequest) (*csipb.ControllerGetCapabilitiesResponse, error) {
	return &csipb.ControllerGetCapabilitiesResponse{Capabilities: []*csipb.ControllerServiceCapability{{
		Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}},
	}}}, nil
}

func (d *ported) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	return &csipb.NodeGetCapabilitiesResponse{Capabilities: []*csipb.NodeServiceCapability{{
		Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}},
	}}}, nil
}

func (d *ported) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	return &csipb.NodeGetInfoResponse{NodeId: nodeName}, nil
}

// image returns the file of a volume.
func (d *ported) image(id string) string { return filepath.Join(d.dir, filepath.Base(id)) }

// require fails with a code of CSI for an empty argument, and for a missing volume.
func (d *ported) require(id string, others ...string) error {
	for _, value := range append(others, id) {
		if value == "" {
			return status.Error(codes.InvalidArgument, "an argument is missing")
		}
	}
	if _, err := os.Stat(d.image(id)); err != nil {
		return status.Error(codes.NotFound, "no such volume")
	}
	return nil
}

func (d *ported) CreateVolume(_ context.Context, req *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	if req.Name == "" || len(req.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "an argument is missing")
	}
	id := strings.ReplaceAll(req.Name, "/", "_")
	size := cmp.Or(req.CapacityRange.GetRequiredBytes(), 16<<20)
	if info, err := os.Stat(d.image(id)); err == nil {
		if info.Size() != size {
			return nil, status.Error(codes.AlreadyExists, "a volume of another size")
		}
	} else if err := os.WriteFile(d.image(id), nil, 0o600); err != nil {
		return nil, err
	} else if err := os.Truncate(d.image(id), size); err != nil {
		return nil, err
	}
	return &csipb.CreateVolumeResponse{Volume: &csipb.Volume{VolumeId: id, CapacityBytes: size}}, nil
}

func (d *ported) DeleteVolume(_ context.Context, req *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	if req.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "an argument is missing")
	}
	if err := os.Remove(d.image(req.VolumeId)); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return &csipb.DeleteVolumeResponse{}, nil
}

func (d *ported) ValidateVolumeCapabilities(_ context.Context, req *csipb.ValidateVolumeCapabilitiesRequest) (*csipb.ValidateVolumeCapabilitiesResponse, error) {
	if len(req.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "an argument is missing")
	}
	if err := d.require(req.VolumeId); err != nil {
		return nil, err
	}
	return &csipb.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csipb.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: req.VolumeCapabilities},
	}, nil
}

// NodeStageVolume attaches the volume, and formats and mounts a file system.
func (d *ported) NodeStageVolume(ctx context.Context, req *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	if req.VolumeCapability == nil {
		return nil, status.Error(codes.InvalidArgument, "an argument is missing")
	}
	if err := d.require(req.VolumeId, req.StagingTargetPath); err != nil {
		return nil, err
	}
	device, err := loop.AttachFileDevice(ctx, d.image(req.VolumeId), loop.Config{})
	if err != nil {
		return nil, err
	}
	if req.VolumeCapability.GetBlock() == nil {
		if err := os.MkdirAll(req.StagingTargetPath, 0o750); err != nil {
			return nil, err
		}
		if err := d.mounter.FormatAndMount(device.Path, req.StagingTargetPath, "ext4", req.VolumeCapability.GetMount().MountFlags); err != nil {
			return nil, err
		}
	}
	return &csipb.NodeStageVolumeResponse{}, nil
}

// NodePublishVolume binds the staged file system, or the device.
func (d *ported) NodePublishVolume(ctx context.Context, req *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	if req.VolumeCapability == nil {
		return nil, status.Error(codes.InvalidArgument, "an argument is missing")
	}
	if err := d.require(req.VolumeId, req.TargetPath, req.StagingTargetPath); err != nil {
		return nil, err
	}
	source := req.StagingTargetPath
	if req.VolumeCapability.GetBlock() != nil {
		device, err := loop.GetLoopDevice(ctx, d.image(req.VolumeId))
		if err != nil {
			return nil, err
		}
		source = device.Path
		f, err := os.OpenFile(req.TargetPath, os.O_CREATE, 0o640)
		if err != nil {
			return nil, err
		}
		_ = f.Close()
	} else if err := os.MkdirAll(req.TargetPath, 0o750); err != nil {
		return nil, err
	}
	options := []string{"bind"}
	if req.Readonly {
		options = append(options, "ro")
	}
	if err := d.mounter.Mount(source, req.TargetPath, "", options); err != nil {
		return nil, err
	}
	if f, err := os.Open(req.TargetPath); err != nil { // as the user of the volume
		return nil, err
	} else if err := f.Close(); err != nil {
		return nil, err
	}
	return &csipb.NodePublishVolumeResponse{}, nil
}

func (d *ported) NodeUnpublishVolume(_ context.Context, req *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	if err := d.require(req.VolumeId, req.TargetPath); err != nil {
		return nil, err
	}
	return &csipb.NodeUnpublishVolumeResponse{}, peer.CleanupMountPoint(req.TargetPath, d.mounter, true)
}

func (d *ported) NodeUnstageVolume(ctx context.Context, req *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	if err := d.require(req.VolumeId, req.StagingTargetPath); err != nil {
		return nil, err
	}
	if err := peer.CleanupMountPoint(req.StagingTargetPath, d.mounter, true); err != nil {
		return nil, err
	}
	return &csipb.NodeUnstageVolumeResponse{}, loop.DetachFileDevice(ctx, d.image(req.VolumeId))
}

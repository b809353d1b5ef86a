package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestDrivers: one driver creates a volume in the export, and the driver of a node, which registers itself, mounts it
// by the attributes alone.
func TestDrivers(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // short enough for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	export, kubelet := dir+"/export", dir+"/kubelet"
	for _, sub := range []string{export, kubelet, kubelet + "/pods"} {
		require.NoError(t, os.Mkdir(sub, 0o755))
	}
	kernel := mounttest.NewFake(mount.Config{})
	log := slog.New(slog.DiscardHandler)
	atServer := []string{"-name=n.example.com", "-node-id=node-1", "-server=nfs.example.com", "-path=/export", "-export=" + export, "-kubelet-dir=" + dir + "/run"}
	o, err := parse(atServer, &bytes.Buffer{})
	require.NoError(t, err)
	bounded, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.ErrorIs(t, serve(bounded, o, kernel, log), volume.ErrNotMounted)
	require.NoDirExists(t, export+"/.volumekit")
	require.NoError(t, kernel.Mount(t.Context(), mount.Request{Source: "nfs.example.com:/export", Target: export, FSType: "nfs4"}))
	connect := func(args ...string) *grpc.ClientConn {
		o, err := parse(append(args, "-name=n.example.com", "-node-id=node-1"), &bytes.Buffer{})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, o, kernel, log) }()
		connection, err := grpc.NewClient("unix:"+o.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = connection.Close()
			stop()
			require.NoError(t, <-ended)
		})
		return connection
	}

	controller := csipb.NewControllerClient(connect(atServer...))
	capability := &csipb.VolumeCapability{
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{MountFlags: []string{"nfsvers=4.1"}}},
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
	}
	created, err := controller.CreateVolume(t.Context(), &csipb.CreateVolumeRequest{
		Name: "pvc-1", VolumeCapabilities: []*csipb.VolumeCapability{capability}, CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 10},
		Parameters: map[string]string{"csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop", "onDelete": "delete"},
	})
	require.NoError(t, err)
	v := created.Volume
	require.DirExists(t, export+"/shop-data-pvc-1")

	registered := make(chan string, 16)
	watcher, err := registration.New(registration.Config{Dir: kubelet + "/plugins_registry", Changed: func(name string) { registered <- name }})
	require.NoError(t, err)
	watching, end := context.WithCancel(context.Background())
	watched := make(chan error, 1)
	go func() { watched <- watcher.Run(watching) }()
	t.Cleanup(func() {
		end()
		<-watched
	})
	connection := connect("-kubelet-dir=" + kubelet)
	require.Equal(t, "n.example.com", <-registered)
	capabilities, err := csipb.NewIdentityClient(connection).GetPluginCapabilities(t.Context(), &csipb.GetPluginCapabilitiesRequest{})
	require.NoError(t, err)
	require.Empty(t, capabilities.Capabilities, "the driver of a node creates nothing")

	node, target := csipb.NewNodeClient(connection), kubelet+"/pods/mount"
	_, err = node.NodePublishVolume(t.Context(), &csipb.NodePublishVolumeRequest{
		VolumeId: v.VolumeId, VolumeContext: v.VolumeContext, VolumeCapability: capability, TargetPath: target,
	})
	require.NoError(t, err)
	table, err := kernel.List(t.Context())
	require.NoError(t, err)
	at, ok := mount.Table(table).At(target)
	require.True(t, ok)
	require.Equal(t, "nfs.example.com:/export/shop-data-pvc-1", at.Source)
	_, err = node.NodeUnpublishVolume(t.Context(), &csipb.NodeUnpublishVolumeRequest{VolumeId: v.VolumeId, TargetPath: target})
	require.NoError(t, err)
	require.NoDirExists(t, target)
	_, err = controller.DeleteVolume(t.Context(), &csipb.DeleteVolumeRequest{VolumeId: v.VolumeId})
	require.NoError(t, err)
	require.NoDirExists(t, export+"/shop-data-pvc-1")
}

// TestWrongArguments: the exit status is 2, and 0 for -help.
func TestWrongArguments(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	testbed.RequireCommandLines(t, program.Run,
		testbed.CommandLine{Status: 2, Prints: "-node-id: required; see -help"},
		testbed.CommandLine{Args: "-node-id=n -server=s", Status: 2, Prints: "require each other"},
		testbed.CommandLine{Args: "-node-id=n -path=/p", Status: 2, Prints: "require each other"},
		testbed.CommandLine{Args: "-node-id=n x", Status: 2, Prints: "x"},
		testbed.CommandLine{Args: "-help", Prints: "-export"},
		testbed.CommandLine{Args: "-node-id=n -kubelet-dir=/proc/missing", Status: 1, Prints: "/proc/missing"})
}

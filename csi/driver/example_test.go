package driver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A driver, and the calls of an orchestrator for a volume.
func ExampleServe() {
	dir, _ := os.MkdirTemp("", "d")
	defer os.RemoveAll(dir)
	dir, _ = filepath.EvalSymlinks(dir)
	root, kubelet := dir+"/driver", dir+"/kubelet"
	_, _ = os.Mkdir(root, 0o750), os.Mkdir(kubelet, 0o750)

	ctx, stop := context.WithCancel(context.Background())
	host, _ := volume.NewHost(ctx, root, volume.WithTargetDirs(kubelet))
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{NoAttach: true})
	listener, _ := driver.Listen(ctx, dir+"/csi.sock")
	served := make(chan error)
	go func() {
		served <- driver.Serve(ctx, listener, driver.Config{
			Name: "fake.csi.example.com", Version: "1.0", NodeID: "node-1", Plugin: plugin, Host: host,
		})
	}()

	connection, _ := grpc.NewClient("unix:"+dir+"/csi.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	node := csipb.NewNodeClient(connection)
	capability := mounted(csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER)
	created, err := csipb.NewControllerClient(connection).CreateVolume(ctx, &csipb.CreateVolumeRequest{
		Name: "pvc-1", VolumeCapabilities: []*csipb.VolumeCapability{capability},
	})
	fmt.Println("created:", err, created.GetVolume().GetCapacityBytes())
	v := created.GetVolume()
	_, err = node.NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{
		VolumeId: v.VolumeId, VolumeContext: v.VolumeContext, VolumeCapability: capability, StagingTargetPath: kubelet + "/staging",
	})
	fmt.Println("staged:", err)
	_, err = node.NodePublishVolume(ctx, &csipb.NodePublishVolumeRequest{
		VolumeId: v.VolumeId, VolumeContext: v.VolumeContext, VolumeCapability: capability,
		StagingTargetPath: kubelet + "/staging", TargetPath: kubelet + "/pod-1",
	})
	fmt.Println("published:", err)
	mounted, _ := plugin.Mounter().IsMountPoint(ctx, kubelet+"/pod-1")
	fmt.Println("mounted:", mounted)

	_ = connection.Close()
	stop()
	fmt.Println("served:", <-served)
	// Output:
	// created: <nil> 1073741824
	// staged: <nil>
	// published: <nil>
	// mounted: true
	// served: <nil>
}

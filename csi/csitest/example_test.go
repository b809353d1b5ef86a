package csitest_test

import (
	"context"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volumekit/volumekit/csi/csitest"
)

// A client publishes a volume that the driver stages, and has not staged it.
func Example() {
	d := csitest.NewDriver(csitest.Config{Capabilities: csitest.Capabilities{
		Node: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
	}})
	_, err := csipb.NewNodeClient(d.Conn()).NodePublishVolume(context.Background(), &csipb.NodePublishVolumeRequest{
		VolumeId: "v", StagingTargetPath: "/staging", TargetPath: "/target",
		VolumeCapability: &csipb.VolumeCapability{
			AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
			AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
	})
	fmt.Println(err)
	for _, v := range d.Violations() {
		fmt.Println(v.Rule)
	}
	// Output:
	// rpc error: code = FailedPrecondition desc = the volume is not staged at "/staging"
	// stage before publish
}

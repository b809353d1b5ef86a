package csi

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/internal/accessmode"
	"github.com/volumekit/volumekit/volume"
)

// BenchmarkPodVolume measures stage, publish, unpublish and unstage of one volume for one pod, with a
// driver that does nothing: by the calls alone, and by the plugin.
func BenchmarkPodVolume(b *testing.B) {
	n := newFakeNode(b, capStage)
	n.driver.mounter = directories{n.mounter}
	n.driver.quiet = true
	spec := n.pv("data")
	b.Run("calls alone", func(b *testing.B) {
		c, _, err := n.plugin.clientOf(b.Context(), driverOne)
		require.NoError(b, err)
		staging, target := n.host.Root()+"/staging", n.host.Root()+"/target"
		require.NoError(b, os.MkdirAll(staging, 0o750))
		capability := &csipb.VolumeCapability{AccessMode: accessmode.Of("ReadWriteOnce", false), AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}}}
		ctx := context.Background()
		for b.Loop() {
			_, err := c.node.NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{VolumeId: "v", StagingTargetPath: staging, VolumeCapability: capability})
			require.NoError(b, err)
			_, err = c.node.NodePublishVolume(ctx, &csipb.NodePublishVolumeRequest{VolumeId: "v", StagingTargetPath: staging, TargetPath: target, VolumeCapability: capability})
			require.NoError(b, err)
			_, err = c.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: target})
			require.NoError(b, err)
			_, err = c.node.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: "v", StagingTargetPath: staging})
			require.NoError(b, err)
		}
	})
	b.Run("plugin", func(b *testing.B) {
		staging := n.stagePath(spec)
		require.NoError(b, os.MkdirAll(filepath.Dir(filepath.Dir(n.podFile("data"))), 0o750))
		for b.Loop() {
			require.NoError(b, n.stage(spec, volume.DeviceMounterArgs{}))
			require.NoError(b, n.setUp(spec, volume.MounterArgs{}))
			require.NoError(b, n.tearDown("data"))
			require.NoError(b, n.unstage(staging))
		}
	})
}

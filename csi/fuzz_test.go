package csi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/internal/accessmode"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/api/resource"
)

// FuzzVolData: any text in vol_data.json is recovered or refused. A recovered specification is valid,
// and no path leaves the host's root.
func FuzzVolData(f *testing.F) {
	n := newFakeNode(f, capStage)
	request, err := encode(&csipb.NodePublishVolumeRequest{VolumeId: "h", VolumeCapability: &csipb.VolumeCapability{
		AccessMode: accessmode.Of("ReadWriteMany", false),
	}})
	require.NoError(f, err)
	seed, err := voldata.Data{SpecVolumeID: "data", VolumeHandle: "h", DriverName: driverOne, Call: &voldata.Call{Boot: n.plugin.boot, Request: request}}.Text()
	require.NoError(f, err)
	f.Add(seed)
	f.Add([]byte(`{"driverName":"one.example.com","volumeHandle":"../../etc","specVolID":"data"}`))
	f.Add([]byte(`{"driverName":"..","volumeHandle":"h","specVolID":"data","volumeLifecycleMode":"Ephemeral"}`))
	f.Add([]byte(`{"driverName":"one.example.com","volumeHandle":"h","specVolID":"data","volumekit.io/call":"{}","volumekit.io/state":"r"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n.t = t
		file := n.podFile("data")
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, text, 0o600))
		found, err := n.construct("data")
		if err != nil {
			require.Zero(t, found)
			return
		}
		require.NoError(t, found.Spec.Validate())
		require.Equal(t, "data", found.Spec.Name())
		s, err := sourceOf(found.Spec)
		require.NoError(t, err, "a recovered specification is valid")
		if s.persistent != nil {
			staging, err := n.plugin.stagingTarget(s.driver, s.handle)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(staging.path, n.host.Root()+"/plugins/kubernetes.io/csi/"+s.driver+"/"))
			require.Equal(t, filepath.Clean(staging.path), staging.path)
		}
		_ = n.setUp(found.Spec, volume.MounterArgs{IsRemount: true})
		_ = n.tearDown("data")
		for _, request := range n.driver.transcript() {
			if r, ok := request.(*csipb.NodePublishVolumeRequest); ok {
				require.Equal(t, filepath.Join(filepath.Dir(file), "mount"), r.TargetPath)
			}
			if r, ok := request.(*csipb.NodeUnpublishVolumeRequest); ok {
				require.Equal(t, filepath.Join(filepath.Dir(file), "mount"), r.TargetPath)
			}
		}
	})
}

// FuzzAnswers: any answer of a driver is a result or an error.
func FuzzAnswers(f *testing.F) {
	add := func(stats *csipb.NodeGetVolumeStatsResponse, size int64) {
		text, err := proto.Marshal(stats)
		require.NoError(f, err)
		f.Add(text, size)
	}
	add(&csipb.NodeGetVolumeStatsResponse{}, 0)
	stats := &csipb.NodeGetVolumeStatsResponse{
		Usage: []*csipb.VolumeUsage{{Unit: csipb.VolumeUsage_BYTES, Total: -1 << 63, Used: 1<<63 - 1}, {Unit: -1}},
	}
	require.NoError(f, condition.Set(stats, condition.Condition{Message: "bad\r\n"}))
	add(stats, -1<<63)
	f.Add([]byte("\xff"), int64(1))
	f.Fuzz(func(t *testing.T, text []byte, size int64) {
		answer := new(csipb.NodeGetVolumeStatsResponse)
		if proto.Unmarshal(text, answer) == nil {
			m := metricsFrom(answer, capabilities{condition: true})
			for _, q := range []*resource.Quantity{m.Capacity, m.Used, m.Available, m.Inodes, m.InodesUsed, m.InodesFree} {
				require.True(t, q == nil || q.Sign() >= 0)
			}
			if m.Message != nil {
				require.NotContains(t, *m.Message, "\n")
			}
		}
		caps := new(csipb.NodeGetCapabilitiesResponse)
		if proto.Unmarshal(text, caps) == nil {
			_ = capabilitiesFrom(caps)
		}
		recorded, ok := decode(text, &csipb.NodePublishVolumeRequest{VolumeId: "h", TargetPath: "/t"}, "/s")
		if ok {
			require.Equal(t, [2]string{"h", "/t"}, [2]string{recorded.VolumeId, recorded.TargetPath})
			require.Empty(t, recorded.Secrets)
		}
		_ = recordedUse(&voldata.Call{Request: text})
	})
}

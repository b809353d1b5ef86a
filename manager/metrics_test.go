package manager_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/metricstest"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// TestOperationMetricNames: metrics have the kubelet's names of operations, which differ for block
// volumes.
func TestOperationMetricNames(t *testing.T) {
	for mode, names := range map[v1.PersistentVolumeMode][]string{
		v1.PersistentVolumeFilesystem: {"device_mount", "unmount_device", "volume_attach", "volume_detach", "volume_mount", "volume_unmount"},
		v1.PersistentVolumeBlock:      {"device_mount", "map_volume", "unmap_device", "unmap_volume", "volume_attach", "volume_detach"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				n.claim("a", ofMode(mode))
				recorder := metricstest.New(t)
				n.config.Metrics = recorder
				pod := podWith("1", "a")
				if mode == v1.PersistentVolumeBlock {
					withDevices(pod)
				}
				m, stop := n.runUp(pod)
				n.source.RemovePod("1")
				n.down(m, pod)
				synctest.Wait()
				stop()
				var want []string
				for _, name := range names {
					want = append(want, manager.OperationDuration+" volume_plugin=volumekit.io/fake operation_name="+name+" status=success migrated=false")
				}
				require.Equal(t, want, slices.Sorted(maps.Keys(recorder.Take())))
			})
		})
	}
}

// TestReconstructMetrics: each volume found at a start is counted once, even if rescans
// reconstruct it again. Unrecognized volumes are also counted as errors.
func TestReconstructMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()
		for _, dir := range []string{"kubernetes.io~csi/one", "kubernetes.io~csi/two", "a~b~c/one"} {
			require.NoError(t, os.MkdirAll(filepath.Join(n.host.Root(), "pods/2/volumes", dir), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(n.host.Root(), "pods/2/volumes", dir, "vol_data.json"), nil, 0o644))
		}
		recorder := metricstest.New(t)
		n.config.Metrics = recorder
		m, stop := n.run()
		n.up(m, pod)
		time.Sleep(24 * time.Hour) // and so many resyncs
		require.Len(t, m.State().Leftovers, 3)
		stop()
		counters := recorder.Take()
		maps.DeleteFunc(counters, func(series string, _ int) bool { return strings.HasPrefix(series, manager.OperationDuration) })
		const total, failed = manager.ReconstructTotal + " volume_plugin=", manager.ReconstructErrors + " volume_plugin="
		require.Equal(t, map[string]int{
			total + "volumekit.io/fake": 1, total + "kubernetes.io/csi": 2, failed + "kubernetes.io/csi": 2, total: 1, failed: 1,
		}, counters)
	})
}

package manager_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// operationCounts counts how often an operation was measured, by name.
type operationCounts struct {
	*testing.T
	mu     sync.Mutex
	byName map[string]int
}

func (o *operationCounts) Observe(name string, _ time.Duration, labels ...manager.Label) {
	o.mu.Lock()
	defer o.mu.Unlock()
	values := map[string]string{}
	for _, l := range labels {
		values[l.Name] = l.Value
	}
	o.byName[values["operation_name"]]++
	delete(values, "operation_name")
	if name != manager.OperationDuration || !maps.Equal(values, map[string]string{
		"volume_plugin": "volumekit.io/fake", "status": "success", "migrated": "false"}) {
		o.Errorf("%s with %v", name, values)
	}
}

func (o *operationCounts) Add(string, int, ...manager.Label) {}

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
				o := &operationCounts{T: t, byName: map[string]int{}}
				n.config.Metrics = o
				pod := podWith("1", "a")
				if mode == v1.PersistentVolumeBlock {
					withDevices(pod)
				}
				m, stop := n.runUp(pod)
				n.source.RemovePod("1")
				n.down(m, pod)
				synctest.Wait()
				stop()
				require.Equal(t, names, slices.Sorted(maps.Keys(o.byName)))
			})
		})
	}
}

// counterSums is a manager.Metrics that sums the counters by name and plugin.
type counterSums struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *counterSums) Observe(string, time.Duration, ...manager.Label) {}

func (c *counterSums) Add(name string, n int, labels ...manager.Label) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[name+" "+labels[0].Value] += n
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
		c := &counterSums{all: map[string]int{}}
		n.config.Metrics = c
		m, stop := n.run()
		n.up(m, pod)
		time.Sleep(24 * time.Hour) // and so many resyncs
		require.Len(t, m.State().Leftovers, 3)
		stop()
		require.Equal(t, map[string]int{
			manager.ReconstructTotal + " volumekit.io/fake": 1,
			manager.ReconstructTotal + " kubernetes.io/csi": 2, manager.ReconstructErrors + " kubernetes.io/csi": 2,
			manager.ReconstructTotal + " ": 1, manager.ReconstructErrors + " ": 1,
		}, c.all)
	})
}

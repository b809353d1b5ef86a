package attach_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/metricstest"
)

// TestDurations: attaches and detaches are measured by the names of kube-controller-manager.
func TestDurations(t *testing.T) {
	line := func(plugin, operation, status string) string {
		return fmt.Sprintf("storage_operation_duration_seconds volume_plugin=%s operation_name=%s status=%s migrated=false", plugin, operation, status)
	}
	inWorld(t, func(w *world) {
		w.config.Backoff = time.Minute
		w.addDisks(single, plugged)
		w.start()
		w.addPod("one", "a", "single")
		w.addPod("two", "a", "plugged")
		w.settle()
		require.Equal(t, map[string]int{
			line("example.com/disk", "volume_attach", "success"): 1, line("kubernetes.io/csi:"+driver, "volume_attach", "success"): 1,
		}, w.metrics.Take())
		w.fail(func(string) error { return errors.New("broken") })
		w.deletePod("one")
		w.deletePod("two")
		w.settle()
		require.Equal(t, map[string]int{
			line("example.com/disk", "volume_detach", "fail-unknown"): 1, line("kubernetes.io/csi:"+driver, "volume_detach", "success"): 1,
		}, w.metrics.Take())
		w.fail(nil)
		w.Wait(2 * time.Minute)
		require.Equal(t, map[string]int{line("example.com/disk", "volume_detach", "success"): 1}, w.metrics.Take())
	})
}

// TestGauges: pairs of a volume and a node are counted in the desired and the actual state.
func TestGauges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single, shared, plugged)
		w.start()
		gauges := func() map[string]int {
			recorder := metricstest.New(t)
			w.latest.Gauges(recorder.Gauge)
			return recorder.Take()
		}
		w.addPod("one", "a", "single")
		w.addPod("two", "b", "single")
		w.addPod("three", "a", "plugged")
		w.addPod("four", "a", "shared")
		w.addPod("five", "a", "shared")
		w.settle()
		name := func(plugin, state string) string {
			return fmt.Sprintf("attachdetach_controller_total_volumes plugin_name=%s state=%s", plugin, state)
		}
		const csi, plugin, desired, actual = "kubernetes.io/csi:" + driver, "example.com/disk", "desired_state_of_world", "actual_state_of_world"
		require.Equal(t, map[string]int{name(csi, desired): 3, name(csi, actual): 2, name(plugin, desired): 1, name(plugin, actual): 1}, gauges())
		w.deletePod("three")
		w.settle()
		require.Equal(t, map[string]int{name(csi, desired): 3, name(csi, actual): 2}, gauges())
	})
}

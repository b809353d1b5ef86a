package attach_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
)

// durations counts what Observe receives, by the labels.
type durations struct {
	mu     sync.Mutex
	counts map[string]int
}

func (d *durations) Add(string, int, ...manager.Label) {}

func (d *durations) Observe(name string, _ time.Duration, labels ...manager.Label) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := name
	for _, l := range labels {
		text += fmt.Sprintf(" %s=%s", l.Name, l.Value)
	}
	d.counts[text]++
}

// took returns the counts since the last time, without migrated=false, and checks the name.
func (d *durations) took() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, text := range slices.Sorted(maps.Keys(d.counts)) {
		all = append(all, fmt.Sprint(text, " ", d.counts[text]))
	}
	clear(d.counts)
	return all
}

// TestDurations: attaches and detaches are measured by the names of kube-controller-manager.
func TestDurations(t *testing.T) {
	line := func(plugin, operation, status string) string {
		return fmt.Sprintf("storage_operation_duration_seconds volume_plugin=%s operation_name=%s status=%s migrated=false 1", plugin, operation, status)
	}
	inWorld(t, func(w *world) {
		measured := &durations{counts: map[string]int{}}
		w.config.Metrics, w.config.Backoff = measured, time.Minute
		w.addDisks(single, plugged)
		w.start()
		w.addPod("one", "a", "single")
		w.addPod("two", "a", "plugged")
		w.settle()
		require.Equal(t, []string{
			line("example.com/disk", "volume_attach", "success"), line("kubernetes.io/csi:"+driver, "volume_attach", "success"),
		}, measured.took())
		w.fail(func(string) error { return errors.New("broken") })
		w.deletePod("one")
		w.deletePod("two")
		w.settle()
		require.Equal(t, []string{
			line("example.com/disk", "volume_detach", "fail-unknown"), line("kubernetes.io/csi:"+driver, "volume_detach", "success"),
		}, measured.took())
		w.fail(nil)
		w.Wait(2 * time.Minute)
		require.Equal(t, []string{line("example.com/disk", "volume_detach", "success")}, measured.took())
	})
}

// TestGauges: pairs of a volume and a node are counted in the desired and the actual state.
func TestGauges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single, shared, plugged)
		w.start()
		gauges := func() map[string]int {
			counts := map[string]int{}
			w.latest.Gauges(func(name string, value int, labels ...manager.Label) { counts[fmt.Sprint(name, labels)] = value })
			return counts
		}
		w.addPod("one", "a", "single")
		w.addPod("two", "b", "single")
		w.addPod("three", "a", "plugged")
		w.addPod("four", "a", "shared")
		w.addPod("five", "a", "shared")
		w.settle()
		name := func(plugin, state string) string {
			return fmt.Sprintf("attachdetach_controller_total_volumes[{plugin_name %s} {state %s}]", plugin, state)
		}
		const csi, plugin, desired, actual = "kubernetes.io/csi:" + driver, "example.com/disk", "desired_state_of_world", "actual_state_of_world"
		require.Equal(t, map[string]int{name(csi, desired): 3, name(csi, actual): 2, name(plugin, desired): 1, name(plugin, actual): 1}, gauges())
		w.deletePod("three")
		w.settle()
		require.Equal(t, map[string]int{name(csi, desired): 3, name(csi, actual): 2}, gauges())
	})
}

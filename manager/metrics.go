package manager

import "time"

// Names of metrics, as the kubelet has them.
const (
	// OperationDuration has the labels volume_plugin, operation_name, status ("success",
	// "fail-unknown") and migrated ("false"). The operation "device_mount" is our own: the
	// kubelet counts it in "volume_mount" and "map_volume".
	OperationDuration = "storage_operation_duration_seconds"
	// ReconstructTotal counts the volumes found on disk after a start, ReconstructErrors the
	// unrecognized ones, both with the label volume_plugin, which is empty for an invalid name.
	ReconstructTotal  = "reconstruct_volume_operations_total"
	ReconstructErrors = "reconstruct_volume_operations_errors_total"
)

// A Label is a label of a metric.
type Label struct{ Name, Value string }

// Metrics receives measurements. The number of volumes by plugin and state (the kubelet's
// volume_manager_total_volumes) is not among them: see [State.Totals].
type Metrics interface {
	// Observe records a duration, for a histogram in seconds.
	Observe(name string, took time.Duration, labels ...Label)
	// Add adds to a counter.
	Add(name string, n int, labels ...Label)
}

type noMetrics struct{}

func (noMetrics) Observe(string, time.Duration, ...Label) {}
func (noMetrics) Add(string, int, ...Label)               {}

package manager

import "time"

// Names of metrics, as the kubelet has them.
const (
	// OperationDuration has the labels volume_plugin, operation_name, status
	// ("success", "fail-unknown") and migrated ("false"). Of the operations,
	// "device_mount" is one of ours: to the kubelet it is a part of "volume_mount",
	// and of "map_volume".
	OperationDuration = "storage_operation_duration_seconds"
	// ReconstructTotal counts the volumes of pods that are found on disk after a start,
	// ReconstructErrors those of them that are not understood: with the label
	// volume_plugin, which is empty where there is no such name.
	ReconstructTotal  = "reconstruct_volume_operations_total"
	ReconstructErrors = "reconstruct_volume_operations_errors_total"
)

// A Label is a name and a value that a metric has.
type Label struct{ Name, Value string }

// Metrics collects numbers. How many volumes there are, by plugin and state, is not
// among them (the kubelet's volume_manager_total_volumes): [State.Totals] says so
// when somebody wants to know.
type Metrics interface {
	// Observe is told a duration, for a histogram in seconds.
	Observe(name string, took time.Duration, labels ...Label)
	// Add adds to a counter.
	Add(name string, n int, labels ...Label)
}

type noMetrics struct{}

func (noMetrics) Observe(string, time.Duration, ...Label) {}
func (noMetrics) Add(string, int, ...Label)               {}

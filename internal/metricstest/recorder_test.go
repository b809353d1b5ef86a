package metricstest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/metricstest"
	"github.com/volumekit/volumekit/manager"
)

// A failureCounter is a test that counts its failures.
type failureCounter struct {
	testing.TB
	failures []string
}

func (f *failureCounter) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func TestRecorder(t *testing.T) {
	counter := &failureCounter{TB: t}
	r := metricstest.New(counter)
	plugin := manager.Label{Name: "volume_plugin", Value: "fake"}
	r.Add(manager.ReconstructTotal, 2, plugin)
	r.Add(manager.ReconstructTotal, 3, plugin)
	result := []manager.Label{plugin, {Name: "operation_name", Value: "volume_mount"}, {Name: "status", Value: "success"}, {Name: "migrated", Value: "false"}}
	for range 2 {
		r.Observe(manager.OperationDuration, time.Second, result...)
	}
	mounts := "storage_operation_duration_seconds volume_plugin=fake operation_name=volume_mount status=success migrated=false"
	reconstructions := "reconstruct_volume_operations_total volume_plugin=fake"
	require.Equal(t, 2*time.Second, r.Time(mounts))
	require.Equal(t, []string{reconstructions, reconstructions, mounts, mounts}, r.Order())
	require.Equal(t, map[string]int{reconstructions: 5, mounts: 2}, r.Take())
	require.Empty(t, r.Take())
	require.Empty(t, counter.failures)
}

// TestUndocumented: an unknown name, another type and other labels fail the test.
func TestUndocumented(t *testing.T) {
	plugin := manager.Label{Name: "volume_plugin", Value: "fake"}
	for want, measure := range map[string]func(*metricstest.Recorder){
		"counter unknown_total":                         func(r *metricstest.Recorder) { r.Add("unknown_total", 1) },
		"histogram reconstruct_volume_operations_total": func(r *metricstest.Recorder) { r.Observe(manager.ReconstructTotal, 0, plugin) },
		"gauge reconstruct_volume_operations_total":     func(r *metricstest.Recorder) { r.Gauge(manager.ReconstructTotal, 1, plugin) },
		"with the labels []":                            func(r *metricstest.Recorder) { r.Add(manager.ReconstructTotal, 1) },
		"with the labels [volume_plugin volume_plugin]": func(r *metricstest.Recorder) { r.Add(manager.ReconstructTotal, 1, plugin, plugin) },
		"with the labels [plugin]":                      func(r *metricstest.Recorder) { r.Add(manager.ReconstructTotal, 1, manager.Label{Name: "plugin"}) },
	} {
		counter := &failureCounter{TB: t}
		measure(metricstest.New(counter))
		require.Len(t, counter.failures, 1, want)
		require.Contains(t, counter.failures[0], want)
	}
}

func TestParse(t *testing.T) {
	document := "| metric | type | labels | means | of | alert |\n|---|---|---|---|---|---|\n" +
		"| `a_total` | counter | x_y, z | calls of `b` | `c`, `d` | One, Two |\n| `e_seconds` | histogram |  | a time | `c` |  |\n"
	require.Equal(t, map[string]metricstest.Metric{
		"a_total": {Type: "counter", Labels: []string{"x_y", "z"}, Alerts: []string{"One", "Two"}}, "e_seconds": {Type: "histogram", Labels: []string{}, Alerts: []string{}},
	}, metricstest.Parse(document))
}

package expand_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/volume"
)

// measure sends the measurements of the controller to a new registry.
func (w *world) measure() *prometheus.Registry {
	w.Helper()
	collector, err := metrics.NewCollector(metrics.Config{Buckets: []float64{1}})
	require.NoError(w, err)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(w, registry.Register(collector))
	w.config.Metrics = collector
	return registry
}

// TestMetrics: each call of the Expander is measured once, with its outcome.
func TestMetrics(t *testing.T) {
	inWorld(t, func(w *world) {
		registry := w.measure()
		w.storage.failures = []error{
			errors.New("disk is broken"), volume.AsUncertain(errors.New("connection lost")), volume.AsTransient(errors.New("no driver")),
			fmt.Errorf("no disk has this size: %w", volume.ErrInfeasible),
		}
		w.config.Expander = &panicking{storage: w.storage, call: 6}
		w.storage.setDelay(2 * time.Second)
		w.storage.extra = "-512Mi" // the result of the fifth call is too small
		w.addPair()
		w.start()
		w.request("2Gi")
		w.Wait(time.Hour)
		require.Len(w, w.asked(), 7)
		require.Equal(w, "capacity 2Gi, volume 2Gi, node-expansion-not-required=true", w.state())
		const labels = `migrated="false",operation_name="expand_volume",`
		failed, succeeded := labels+`status="fail-unknown",volume_plugin="`+driver+`"`, labels+`status="success",volume_plugin="`+driver+`"`
		require.NoError(w, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP storage_operation_duration_seconds storage operation duration seconds
# TYPE storage_operation_duration_seconds histogram
storage_operation_duration_seconds_bucket{`+failed+`,le="1"} 0
storage_operation_duration_seconds_bucket{`+failed+`,le="+Inf"} 6
storage_operation_duration_seconds_sum{`+failed+`} 12
storage_operation_duration_seconds_count{`+failed+`} 6
storage_operation_duration_seconds_bucket{`+succeeded+`,le="1"} 0
storage_operation_duration_seconds_bucket{`+succeeded+`,le="+Inf"} 1
storage_operation_duration_seconds_sum{`+succeeded+`} 2
storage_operation_duration_seconds_count{`+succeeded+`} 1
# HELP volumekit_metrics_dropped_total Measurements that were dropped for an invalid name or for changed labels.
# TYPE volumekit_metrics_dropped_total counter
volumekit_metrics_dropped_total 0
`)))
	})
}

// TestNoMetrics: a volume of another program is not measured.
func TestNoMetrics(t *testing.T) {
	inWorld(t, func(w *world) {
		registry := w.measure()
		w.storage.isForeign = true
		w.addPair()
		w.start()
		w.request("2Gi")
		w.Wait(time.Hour)
		count, err := testutil.GatherAndCount(registry, "storage_operation_duration_seconds")
		require.NoError(w, err)
		require.Zero(w, count)
	})
}

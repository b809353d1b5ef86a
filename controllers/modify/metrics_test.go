package modify_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/volume"
)

// TestMetrics: each call of the Modifier is measured once, with its outcome. A missing class, a class of another driver
// and a volume of another program cause no call.
func TestMetrics(t *testing.T) {
	inWorld(t, func(w *world) {
		collector, err := metrics.NewCollector(metrics.Config{Buckets: []float64{1}})
		require.NoError(w, err)
		registry := prometheus.NewPedanticRegistry()
		require.NoError(w, registry.Register(collector))
		w.config.Metrics = collector
		w.addClass("other", "other.example.com", "1")
		w.storage.set(func(s *storage) {
			s.isForeign, s.delay, s.panics = true, 2*time.Second, 5
			s.failures = []error{
				errors.New("broken"), volume.AsUncertain(errors.New("no answer")), volume.AsTransient(errors.New("not sent")),
				errors.Join(errors.New("too fast"), volume.ErrInfeasible),
			}
		})
		requireMeasured := func(want string) {
			w.Helper()
			require.NoError(w, testutil.GatherAndCompare(registry, strings.NewReader(want+`
# HELP volumekit_metrics_dropped_total Measurements that were dropped for an invalid name or for changed labels.
# TYPE volumekit_metrics_dropped_total counter
volumekit_metrics_dropped_total 0
`)))
		}
		w.ask("fast")
		end := w.start()
		w.Wait(time.Hour)
		end()
		w.storage.set(func(s *storage) { s.isForeign = false })
		w.ask("late")
		w.start()
		w.Wait(time.Hour)
		w.ask("other")
		w.Wait(time.Hour)
		requireMeasured("")
		w.ask("fast")
		w.Wait(time.Hour)
		require.Equal(w, isFast, w.state())
		require.Len(w, w.asked(), 6)
		const labels = `migrated="false",operation_name="modify_volume",`
		failed, succeeded := labels+`status="fail-unknown",volume_plugin="`+driver+`"`, labels+`status="success",volume_plugin="`+driver+`"`
		requireMeasured(`
# HELP storage_operation_duration_seconds storage operation duration seconds
# TYPE storage_operation_duration_seconds histogram
storage_operation_duration_seconds_bucket{` + failed + `,le="1"} 0
storage_operation_duration_seconds_bucket{` + failed + `,le="+Inf"} 5
storage_operation_duration_seconds_sum{` + failed + `} 10
storage_operation_duration_seconds_count{` + failed + `} 5
storage_operation_duration_seconds_bucket{` + succeeded + `,le="1"} 0
storage_operation_duration_seconds_bucket{` + succeeded + `,le="+Inf"} 1
storage_operation_duration_seconds_sum{` + succeeded + `} 2
storage_operation_duration_seconds_count{` + succeeded + `} 1`)
	})
}

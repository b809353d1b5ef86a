package metrics_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/manager"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func ExampleCollector() {
	collector, err := metrics.NewCollector(metrics.Config{Labels: prometheus.Labels{"node": "node-1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)

	// A volume manager with manager.Config{Metrics: collector} does this.
	collector.Add(manager.ReconstructTotal, 3, manager.Label{Name: "volume_plugin", Value: "kubernetes.io/nfs"})

	families, err := registry.Gather()
	fmt.Println(len(families), err)
	for _, family := range families {
		fmt.Println(family.GetName(), family.GetMetric()[0].GetCounter().GetValue())
	}
	// Output:
	// 2 <nil>
	// reconstruct_volume_operations_total 3
	// volumekit_metrics_dropped_total 0
}

func label(name, value string) manager.Label { return manager.Label{Name: name, Value: value} }

func TestMeasurements(t *testing.T) {
	c, err := metrics.NewCollector(metrics.Config{Buckets: []float64{1, 10}})
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	c.Observe("op_seconds", 2*time.Second, label("plugin", "a"), label("op", "mount"))
	c.Observe("op_seconds", 500*time.Millisecond, label("op", "mount"), label("plugin", "a"))
	c.Add("found_total", 2)
	c.Add("found_total", 3)
	c.Add("errors_total", 1, label("text", "\xff"))
	want := `
# HELP errors_total errors total
# TYPE errors_total counter
errors_total{text="` + "\uFFFD" + `"} 1
# HELP found_total found total
# TYPE found_total counter
found_total 5
# HELP op_seconds op seconds
# TYPE op_seconds histogram
op_seconds_bucket{op="mount",plugin="a",le="1"} 1
op_seconds_bucket{op="mount",plugin="a",le="10"} 2
op_seconds_bucket{op="mount",plugin="a",le="+Inf"} 2
op_seconds_sum{op="mount",plugin="a"} 2.5
op_seconds_count{op="mount",plugin="a"} 2
# HELP volumekit_metrics_dropped_total Measurements that were dropped for an invalid name or for changed labels.
# TYPE volumekit_metrics_dropped_total counter
volumekit_metrics_dropped_total 0
`
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want)))
}

// TestDropped: no measurement panics or breaks the export of other metrics.
func TestDropped(t *testing.T) {
	tests := map[string]func(*metrics.Collector){
		"invalid name":        func(c *metrics.Collector) { c.Add("a b", 1) },
		"empty name":          func(c *metrics.Collector) { c.Observe("", time.Second) },
		"invalid label":       func(c *metrics.Collector) { c.Add("b", 1, label("a-b", "")) },
		"reserved label":      func(c *metrics.Collector) { c.Add("b", 1, label("__b", "")) },
		"label of buckets":    func(c *metrics.Collector) { c.Observe("b", 1, label("le", "")) },
		"label twice":         func(c *metrics.Collector) { c.Add("b", 1, label("x", "1"), label("x", "2")) },
		"constant label":      func(c *metrics.Collector) { c.Add("b", 1, label("node", "other")) },
		"other labels":        func(c *metrics.Collector) { c.Add("known", 1, label("x", "")) },
		"another type":        func(c *metrics.Collector) { c.Observe("known", time.Second) },
		"decreasing":          func(c *metrics.Collector) { c.Add("known", -1) },
		"of the collector":    func(c *metrics.Collector) { c.Add(metrics.DroppedTotal, 1) },
		"of another type too": func(c *metrics.Collector) { c.Observe(metrics.DroppedTotal, 1) },
	}
	for name, measure := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := metrics.NewCollector(metrics.Config{Labels: prometheus.Labels{"node": "n"}})
			require.NoError(t, err)
			registry := prometheus.NewPedanticRegistry()
			require.NoError(t, registry.Register(c))
			c.Add("known", 1)
			measure(c)
			want := `
# HELP known known
# TYPE known counter
known{node="n"} 1
# HELP volumekit_metrics_dropped_total Measurements that were dropped for an invalid name or for changed labels.
# TYPE volumekit_metrics_dropped_total counter
volumekit_metrics_dropped_total{node="n"} 1
`
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want)))
		})
	}
}

// TestInvalidConfig: the error names the field and the value, which would make Prometheus panic or
// fail later.
func TestInvalidConfig(t *testing.T) {
	tests := map[string]metrics.Config{
		`config.Buckets[1]: Invalid value: 10: must be greater than the bucket before it, 10`:                              {Buckets: []float64{10, 10}},
		`config.Buckets[2]: Invalid value: 1: must be greater than the bucket before it, 2`:                                {Buckets: []float64{0, 2, 1}},
		`config.Buckets[0]: Invalid value: "NaN": must be a number`:                                                        {Buckets: []float64{math.NaN()}},
		`config.Labels: Invalid value: "le": must be the name of a label in Prometheus, and neither le nor begin with __`:  {Labels: prometheus.Labels{"le": "x"}},
		`config.Labels: Invalid value: "a-b": must be the name of a label in Prometheus, and neither le nor begin with __`: {Labels: prometheus.Labels{"a-b": "x"}},
		`config.Labels: Invalid value: "__b": must be the name of a label in Prometheus, and neither le nor begin with __`: {Labels: prometheus.Labels{"__b": "x"}},
		`config.Labels: Invalid value: "": must be the name of a label in Prometheus, and neither le nor begin with __`:    {Labels: prometheus.Labels{"": "x"}},
		"config.Labels[node]: Invalid value: \"\\xff\": must be valid UTF-8":                                               {Labels: prometheus.Labels{"node": "\xff"}},
	}
	for want, config := range tests {
		t.Run(want, func(t *testing.T) {
			collector, err := metrics.NewCollector(config)
			require.EqualError(t, err, want)
			require.ErrorAs(t, err, new(*field.Error))
			require.Nil(t, collector)
		})
	}
}

// TestConfigIsCopied: later changes of a Config change no collector.
func TestConfigIsCopied(t *testing.T) {
	config := metrics.Config{Buckets: []float64{1, 10}, Labels: prometheus.Labels{"node": "n"}}
	c, err := metrics.NewCollector(config)
	require.NoError(t, err)
	config.Buckets[1], config.Labels["a-b"] = 0, ""
	c.Observe("op_seconds", time.Second)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	_, err = registry.Gather()
	require.NoError(t, err)
}

// TestExport: each collection exports the present values of gauges, until they are removed. A name has one type
// and one set of labels, and a series one value.
func TestExport(t *testing.T) {
	c, err := metrics.NewCollector(metrics.Config{Labels: prometheus.Labels{"node": "n"}})
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	c.Add("counter_total", 1)
	value := 1
	remove := c.Export(func(yield func(string, int, ...manager.Label)) {
		yield("volumes", value, label("plugin", "a"), label("mode", "\xff"))
		yield("volumes", 5, label("mode", "x"), label("plugin", "a"))
		yield("volumes", 6, label("plugin", "a"), label("mode", "x"))
		yield("volumes", 7, label("plugin", "a"))
		yield("counter_total", 7)
		yield("no name", 7)
	})
	removeOther := c.Export(func(yield func(string, int, ...manager.Label)) { yield("other", -1) })
	for dropped := 4; dropped <= 8; dropped += 4 {
		want := fmt.Sprintf(`
# HELP counter_total counter total
# TYPE counter_total counter
counter_total{node="n"} 1
# HELP other other
# TYPE other gauge
other{node="n"} -1
# HELP volumekit_metrics_dropped_total Measurements that were dropped for an invalid name or for changed labels.
# TYPE volumekit_metrics_dropped_total counter
volumekit_metrics_dropped_total{node="n"} %d
# HELP volumes volumes
# TYPE volumes gauge
volumes{mode="`+"\uFFFD"+`",node="n",plugin="a"} %d
volumes{mode="x",node="n",plugin="a"} 5
`, dropped, value)
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want)))
		value++
	}
	remove()
	remove()
	count, err := testutil.GatherAndCount(registry, "volumes", "other")
	require.NoError(t, err)
	require.Equal(t, 1, count)
	c.Add("volumes", 1)
	removeOther()
	count, err = testutil.GatherAndCount(registry)
	require.NoError(t, err)
	require.Equal(t, 2, count)
}

package metrics

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/volumekit/volumekit/manager"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DroppedTotal counts the measurements that Prometheus cannot represent: an invalid name, or a
// metric that has had other labels, or has been of another type, before.
const DroppedTotal = "volumekit_metrics_dropped_total"

// durationBuckets are the buckets of the kubelet's storage_operation_duration_seconds.
var durationBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}

// A Config configures a [Collector]. The zero value selects the defaults.
type Config struct {
	// Buckets are the upper bounds of the histograms, in seconds. They must increase. Empty: those
	// of the kubelet.
	Buckets []float64
	// Labels are added to each metric, such as the name of the node. Their names must be valid for
	// Prometheus and must not be "le"; their values must be valid UTF-8.
	Labels prometheus.Labels
}

// A Collector is a [manager.Metrics] and a prometheus.Collector. Its methods are safe for
// concurrent use and do not block. No measurement panics. Create a Collector with [NewCollector].
type Collector struct {
	config  Config
	dropped prometheus.Counter

	mu         sync.Mutex
	labels     map[string][]string // names of the labels of each metric
	histograms map[string]*prometheus.HistogramVec
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]bool // names
	exported   []*Gauges       // replaced, and not changed, by a removal
}

var (
	_ manager.Metrics      = (*Collector)(nil)
	_ prometheus.Collector = (*Collector)(nil)
)

// NewCollector returns a collector without measurements. The program registers it. NewCollector
// copies config. For an invalid field of config it returns a [*field.Error], which names the field.
func NewCollector(config Config) (*Collector, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.Labels = maps.Clone(config.Labels)
	config.Buckets = slices.Clone(config.Buckets)
	if len(config.Buckets) == 0 {
		config.Buckets = durationBuckets
	}
	return &Collector{
		config: config,
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: DroppedTotal, ConstLabels: config.Labels,
			Help: "Measurements that were dropped for an invalid name or for changed labels.",
		}),
		labels:     map[string][]string{},
		histograms: map[string]*prometheus.HistogramVec{},
		counters:   map[string]*prometheus.CounterVec{},
		gauges:     map[string]bool{},
	}, nil
}

// check returns an error for the first invalid field. Prometheus panics for such a field, or fails
// to export the metrics.
func (c Config) check() error {
	path := field.NewPath("config")
	for i, bound := range c.Buckets {
		switch path := path.Child("Buckets").Index(i); {
		case math.IsNaN(bound):
			return field.Invalid(path, "NaN", "must be a number")
		case i > 0 && bound <= c.Buckets[i-1]:
			return field.Invalid(path, bound, fmt.Sprintf("must be greater than the bucket before it, %v", c.Buckets[i-1]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		switch path := path.Child("Labels"); {
		case !isLabelName(name):
			return field.Invalid(path, name, "must be the name of a label in Prometheus, and neither le nor begin with __")
		case !utf8.ValidString(c.Labels[name]):
			return field.Invalid(path.Key(name), c.Labels[name], "must be valid UTF-8")
		}
	}
	return nil
}

// Observe implements manager.Metrics: it adds a duration, in seconds, to the histogram of the name.
// A measurement that Prometheus cannot represent is counted in [DroppedTotal].
func (c *Collector) Observe(name string, took time.Duration, labels ...manager.Label) {
	names, values := split(labels)
	vec := c.histogram(name, names)
	if vec == nil {
		c.dropped.Inc()
		return
	}
	vec.WithLabelValues(values...).Observe(took.Seconds())
}

// Add implements manager.Metrics: it adds n to the counter of the name. A counter never decreases:
// an n below 0 is dropped and counted in [DroppedTotal].
func (c *Collector) Add(name string, n int, labels ...manager.Label) {
	names, values := split(labels)
	vec := c.counter(name, names)
	if vec == nil || n < 0 {
		c.dropped.Inc()
		return
	}
	vec.WithLabelValues(values...).Add(float64(n))
}

// Describe sends no descriptions: each metric exists from its first measurement on, and a gauge while it has a
// value.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	for _, vec := range c.vectors() {
		vec.Collect(metrics)
	}
	c.collectGauges(metrics)
	c.dropped.Collect(metrics)
}

func (c *Collector) vectors() (all []prometheus.Collector) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, vec := range c.histograms {
		all = append(all, vec)
	}
	for _, vec := range c.counters {
		all = append(all, vec)
	}
	return all
}

// histogram returns the histogram of a name, nil for a measurement to drop.
func (c *Collector) histogram(name string, labels []string) *prometheus.HistogramVec {
	c.mu.Lock()
	defer c.mu.Unlock()
	if vec, ok := c.histograms[name]; ok || !c.isNew(name, labels) {
		return sameLabels(vec, c.labels[name], labels)
	}
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help(name), Buckets: c.config.Buckets, ConstLabels: c.config.Labels,
	}, labels)
	c.histograms[name], c.labels[name] = vec, labels
	return vec
}

// counter returns the counter of a name, nil for a measurement to drop.
func (c *Collector) counter(name string, labels []string) *prometheus.CounterVec {
	c.mu.Lock()
	defer c.mu.Unlock()
	if vec, ok := c.counters[name]; ok || !c.isNew(name, labels) {
		return sameLabels(vec, c.labels[name], labels)
	}
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help(name), ConstLabels: c.config.Labels}, labels)
	c.counters[name], c.labels[name] = vec, labels
	return vec
}

// isNew reports whether a metric does not exist yet and is valid. The caller holds mu.
func (c *Collector) isNew(name string, labels []string) bool {
	_, known := c.labels[name]
	return !known && name != DroppedTotal && isName(name) && areLabels(labels, c.config.Labels)
}

// sameLabels returns vec if its labels equal those of the measurement, and nil otherwise.
func sameLabels[V any](vec *V, have, want []string) *V {
	if !slices.Equal(have, want) {
		return nil
	}
	return vec
}

// split returns the labels of a measurement in the order of their names.
func split(labels []manager.Label) (names, values []string) {
	sorted := slices.SortedFunc(slices.Values(labels), func(a, b manager.Label) int { return strings.Compare(a.Name, b.Name) })
	for _, label := range sorted {
		names = append(names, label.Name)
		values = append(values, strings.ToValidUTF8(label.Value, "\uFFFD"))
	}
	return names, values
}

// help returns the help text of a metric: its name in words.
func help(name string) string { return strings.ReplaceAll(name, "_", " ") }

// Package metricstest has a manager.Metrics for tests. It compares each measurement with docs/metrics.md.
package metricstest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volumekit/volumekit/manager"
)

// A Metric is a row of docs/metrics.md.
type Metric struct {
	Type   string // counter, gauge or histogram
	Labels []string
	Alerts []string
}

var row = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\| ([a-z_, ]*) \\|.*\\| ([\\w, ]*) \\|$")

// Parse returns the metrics of a document by their names.
func Parse(document string) map[string]Metric {
	all := map[string]Metric{}
	for _, found := range row.FindAllStringSubmatch(document, -1) {
		all[found[1]] = Metric{Type: found[2], Labels: list(found[3]), Alerts: list(found[4])}
	}
	return all
}

func list(cell string) []string {
	return strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ' ' })
}

// Documented returns the metrics of docs/metrics.md in the repository of the test, whose top has go.work.
// Outside of the repository, as in the module cache, it returns nil.
func Documented(t testing.TB) map[string]Metric {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "docs", "metrics.md"))
		if err != nil {
			t.Fatal(err)
		}
		return Parse(string(text))
	}
	return nil
}

// A Recorder is a manager.Metrics that keeps its measurements. The test fails on a measurement whose name,
// type or labels docs/metrics.md does not have. All methods are safe for concurrent use.
type Recorder struct {
	t          testing.TB
	documented map[string]Metric

	mu     sync.Mutex
	series map[string]int
	times  map[string]time.Duration // of histograms, by series
	order  []string                 // the series of each measurement
}

var _ manager.Metrics = (*Recorder)(nil)

// New returns a recorder without measurements.
func New(t testing.TB) *Recorder {
	t.Helper()
	return &Recorder{t: t, documented: Documented(t), series: map[string]int{}, times: map[string]time.Duration{}}
}

// Observe implements [manager.Metrics].
func (r *Recorder) Observe(name string, took time.Duration, labels ...manager.Label) {
	r.record("histogram", name, 1, took, labels)
}

// Add implements [manager.Metrics].
func (r *Recorder) Add(name string, n int, labels ...manager.Label) {
	r.record("counter", name, n, 0, labels)
}

// Gauge records the value of a gauge: it is the argument of the methods Gauges of controllers.
func (r *Recorder) Gauge(name string, value int, labels ...manager.Label) {
	r.record("gauge", name, value, 0, labels)
}

func (r *Recorder) record(kind, name string, n int, took time.Duration, labels []manager.Label) {
	r.check(kind, name, labels)
	text := seriesOf(name, labels)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.series[text] += n
	r.times[text] += took
	r.order = append(r.order, text)
}

func (r *Recorder) check(kind, name string, labels []manager.Label) {
	if r.documented == nil {
		return
	}
	metric, ok := r.documented[name]
	names := make([]string, len(labels))
	for i, label := range labels {
		names[i] = label.Name
	}
	if !ok || metric.Type != kind || !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(metric.Labels))) {
		r.t.Errorf("docs/metrics.md lacks the %s %s with the labels %v", kind, name, names)
	}
}

// seriesOf returns the text of a series: "name label=value label=value".
func seriesOf(name string, labels []manager.Label) string {
	for _, label := range labels {
		name += fmt.Sprintf(" %s=%s", label.Name, label.Value)
	}
	return name
}

// Take returns the values of all series since the last Take: the sums of counters and gauges, and the
// numbers of observations. A series is written "name label=value label=value".
func (r *Recorder) Take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	series := r.series
	r.series = map[string]int{}
	return series
}

// Time returns the sum of the observed times of a series.
func (r *Recorder) Time(series string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times[series]
}

// Order returns the series of all measurements, in the order of these.
func (r *Recorder) Order() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.order)
}

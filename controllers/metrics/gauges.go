package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/volumekit/volumekit/manager"
)

// Gauges calls yield with the present value of each gauge. The methods Gauges of controllers are Gauges.
type Gauges func(yield func(name string, value int, labels ...manager.Label))

// Export adds gauges, of which each collection exports the present values, until remove is called. A value
// that Prometheus cannot represent is counted in [DroppedTotal]: one with an invalid name, with other labels
// than the name has had before, or of a series that has a value. The calls of gauges can be concurrent.
// Export is safe for concurrent use; a collection that is in progress may call gauges after remove has
// returned.
func (c *Collector) Export(gauges Gauges) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := new(Gauges)
	*key = gauges
	c.exported = append(c.exported, key)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.exported = slices.DeleteFunc(slices.Clone(c.exported), func(other *Gauges) bool { return other == key })
	}
}

// collectGauges sends the values of all gauges.
func (c *Collector) collectGauges(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	exported := c.exported
	c.mu.Unlock()
	seen := map[string]bool{}
	for _, gauges := range exported {
		(*gauges)(func(name string, value int, labels ...manager.Label) {
			names, values := split(labels)
			series := strings.Join(append([]string{name}, values...), "\xff") // no value has this byte
			if seen[series] || !c.isGauge(name, names) {
				c.dropped.Inc()
				return
			}
			seen[series] = true
			desc := prometheus.NewDesc(name, help(name), names, c.config.Labels)
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), values...)
		})
	}
}

// isGauge reports whether a name is that of gauges with these labels, or new.
func (c *Collector) isGauge(name string, labels []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gauges[name] {
		return slices.Equal(c.labels[name], labels)
	}
	if !c.isNew(name, labels) {
		return false
	}
	c.gauges[name], c.labels[name] = true, labels
	return true
}

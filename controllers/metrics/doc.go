// Package metrics exports the metrics of the library to Prometheus. A [Collector] receives the
// measurements of a volume manager, or of controllers, and is registered by the program:
//
//	collector, err := metrics.NewCollector(metrics.Config{})
//	prometheus.MustRegister(collector)
//	volumes, err := manager.New(manager.Config{Metrics: collector, ...})
//
// Controllers that count the objects in their caches export these numbers as gauges:
//
//	defer collector.Export(controller.Gauges)()
//
// The names and labels of the metrics are those of Kubernetes where Kubernetes has them.
package metrics

// Package metrics says how full volumes are, in Kubernetes' quantities: what the node
// side of a CSI driver answers NodeGetVolumeStats with.
//
//	m, err := metrics.NewMetricsStatFS("/var/lib/app/volume").GetMetrics(ctx)
//	used, free := m.Used.Value(), m.Available.Value()
//
// The names are those of k8s.io/kubernetes/pkg/volume. Unlike there each takes a
// context, and returns soon after it ends, also if a server does not answer.
//
// It links golang.org/x/sys and the quantity of apimachinery, nothing else. The numbers
// themselves are in package util/fsusage, which does without the quantity.
package metrics
